package herdgate_test

import (
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/herdgate/herdgate/internal/redistest"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	goleak.VerifyTestMain(redistest.Main(m))
}
