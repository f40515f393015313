module github.com/herdgate/herdgate

go 1.25.0

require (
	github.com/alicebob/miniredis/v2 v2.35.0 // the embedded Redis of examples/herd
	github.com/gin-gonic/gin v1.10.1 // ginmw
	github.com/go-chi/chi/v5 v5.2.3 // tests: chi is served by nethttpmw
	github.com/gofiber/fiber/v2 v2.52.13 // fibermw; 2.52.12 and before have known advisories
	github.com/klauspost/compress v1.18.5 // core: zstd, for CompressEntries; no dependencies of its own, and fasthttp needs it anyway
	github.com/labstack/echo/v4 v4.13.4 // echomw
	github.com/maypok86/otter/v2 v2.2.1 // core: the memory backend, a concurrent cache bounded by bytes
	github.com/prometheus/client_golang v1.23.2 // observe/prometheus
	github.com/prometheus/common v0.66.1 // tests: reads the exposition of examples/proxy
	github.com/redis/go-redis/v9 v9.7.3 // core: the Redis client; before 9.7.3 CVE-2025-29923
	github.com/sony/gobreaker/v2 v2.4.0 // core: the circuit breaker in front of Redis; no dependencies of its own
	github.com/valyala/fasthttp v1.70.0 // fibermw: what Fiber requests are made of
	go.uber.org/goleak v1.3.0 // tests: no goroutine is left behind
)

require (
	github.com/andybalholm/brotli v1.2.1 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/bytedance/sonic v1.11.6 // indirect
	github.com/bytedance/sonic/loader v0.1.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/cloudwego/base64x v0.1.4 // indirect
	github.com/cloudwego/iasm v0.2.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/gabriel-vasile/mimetype v1.4.3 // indirect
	github.com/gin-contrib/sse v0.1.0 // indirect
	github.com/go-playground/locales v0.14.1 // indirect
	github.com/go-playground/universal-translator v0.18.1 // indirect
	github.com/go-playground/validator/v10 v10.20.0 // indirect
	github.com/goccy/go-json v0.10.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/klauspost/cpuid/v2 v2.2.7 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/kylelemons/godebug v1.1.0 // indirect
	github.com/labstack/gommon v0.4.2 // indirect
	github.com/leodido/go-urn v1.4.0 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/mattn/go-runewidth v0.0.16 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.2 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/pelletier/go-toml/v2 v2.2.2 // indirect
	github.com/prometheus/client_model v0.6.2 // indirect
	github.com/prometheus/procfs v0.16.1 // indirect
	github.com/rivo/uniseg v0.2.0 // indirect
	github.com/twitchyliquid64/golang-asm v0.15.1 // indirect
	github.com/ugorji/go/codec v1.2.12 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	github.com/valyala/fasttemplate v1.2.2 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.yaml.in/yaml/v2 v2.4.2 // indirect
	golang.org/x/arch v0.8.0 // indirect
	golang.org/x/crypto v0.48.0 // indirect
	golang.org/x/net v0.50.0 // indirect
	golang.org/x/sys v0.41.0 // indirect
	golang.org/x/text v0.34.0 // indirect
	golang.org/x/time v0.11.0 // indirect
	google.golang.org/protobuf v1.36.8 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
