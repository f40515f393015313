package echomw_test

import (
	"testing"

	"github.com/herdgate/herdgate/internal/conformance"
)

func TestConformance(t *testing.T) { conformance.Run(t, conformance.Echo()) }
