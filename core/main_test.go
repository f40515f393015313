package core

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/herdgate/herdgate/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.Main(m)) }
