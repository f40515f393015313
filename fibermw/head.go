package fibermw

import (
	"net/http"
	"slices"
	"unsafe"

	"github.com/gofiber/fiber/v2"
)

// HeadIsGet implements host.Exchange. Fiber's Get registers a handler for HEAD too, but a handler
// may also be registered for one of the two alone. And while a HEAD request is served as GET, c.Next goes on from
// its place among the routes of HEAD in those of GET. So the answer is yes only if both have the same
// routes with the same handlers, in the same order.
func (x *exchange) HeadIsGet() bool {
	app := x.c.App()
	methods := app.Config().RequestMethods
	head, get := slices.Index(methods, http.MethodHead), slices.Index(methods, http.MethodGet)
	if head < 0 || get < 0 {
		return false
	}
	stack := app.Stack()
	return slices.EqualFunc(stack[head], stack[get], func(a, b *fiber.Route) bool {
		return a.Path == b.Path && slices.EqualFunc(a.Handlers, b.Handlers, same)
	})
}

// same reports whether two handlers are one: the same function with the same captured variables. Package reflect
// tells only the code, which two closures of one function literal share.
func same(a, b fiber.Handler) bool {
	return *(*unsafe.Pointer)(unsafe.Pointer(&a)) == *(*unsafe.Pointer)(unsafe.Pointer(&b)) //nolint:gosec // compared, never followed
}
