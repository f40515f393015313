package nethttpmw_test

import (
	"testing"

	"github.com/herdgate/herdgate/internal/conformance"
)

func TestConformance(t *testing.T) { conformance.Run(t, conformance.NetHTTP()) }

func TestConformanceChi(t *testing.T) { conformance.Run(t, conformance.Chi()) }
