package core

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"

	"github.com/herdgate/herdgate/internal/headers"
	"github.com/herdgate/herdgate/internal/host"
	"github.com/herdgate/herdgate/internal/rfc9111"
	"github.com/herdgate/herdgate/internal/route"
)

// A Key names what is stored for one URL, in all its representations (see
// Gate.Invalidate).
type Key struct {
	Host   string // as in the Host header of requests
	Target string // path and query, exactly as clients send them: "/products/7?lang=de"
	By     string // what KeyBy returned, on routes that have it
	// Header has the values of the credentials named in KeyHeader, on routes that have such. Others are not
	// needed: all representations go.
	Header map[string][]string
}

// frames is an injective encoding of a list of strings: each is preceded by its length.
type frames []byte

func (f frames) add(s string) frames {
	f = binary.AppendUvarint(f, uint64(len(s)))
	return append(f, s...)
}

func (f frames) list(list []string) frames {
	f = binary.AppendUvarint(f, uint64(len(list)))
	for _, s := range list {
		f = f.add(s)
	}
	return f
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	var text [hashLen]byte
	hex.Encode(text[:], sum[:])
	return string(text[:])
}

const hashLen = 2 * sha256.Size

// base is the base location of a canonical key. The hash in it is hashOf(base).
func (g *Gate) base(key frames) string { return string(g.appendBase(nil, key)) }

// appendBase appends the base location of a canonical key to b, which may be the key.
func (g *Gate) appendBase(b, key frames) frames {
	sum := sha256.Sum256(key)
	b = append(append(b, g.namespace...), ":v1:{"...)
	return append(hex.AppendEncode(b, sum[:]), '}')
}

// hashOf returns the hash of a key out of its base location, without a copy.
func hashOf(base string) string { return base[len(base)-1-hashLen : len(base)-1] }

// recipe is how a route makes keys. Two routes with the same recipe share entries.
type recipe struct {
	fingerprint string
	keyQuery    []string
	ignoreQuery []string
	keyBy       bool
	secret      []string // headers of KeyHeader that carry credentials: part of the key
	headers     []string // the other headers of KeyHeader: they make variants
	cookies     []string // of KeyCookie: they make variants

	varyValue func(name string, lines []string) string // what of a header that Vary names selects the variant
}

func newRecipe(cfg *route.Config, isCredential func(string) bool) recipe {
	r := recipe{keyBy: cfg.KeyBy != nil, keyQuery: cfg.KeyQuery, ignoreQuery: cfg.IgnoreQuery, cookies: cfg.KeyCookies, varyValue: rfc9111.VaryValue}
	for _, name := range cfg.KeyHeaders {
		if isCredential(name) {
			r.secret = append(r.secret, name)
		} else {
			r.headers = append(r.headers, name)
		}
	}
	var f frames
	for _, list := range [][]string{r.keyQuery, r.ignoreQuery, r.secret, r.headers, r.cookies} {
		f = f.list(list)
	}
	if r.keyBy {
		f = f.add("by")
	}
	if cfg.NormaliseVary {
		f = f.add("normal")
		r.varyValue = func(name string, lines []string) string {
			if isCredential(name) {
				return rfc9111.VaryValue(name, lines)
			}
			return rfc9111.NormalVaryValue(name, lines)
		}
	}
	if f := string(f); f != string(frames{0, 0, 0, 0, 0}) {
		r.fingerprint = digest(f)[:16]
	}
	return r
}

// key appends the canonical key to f: everything that tells one resource from another, framed. Values that may be
// secret are hashed.
func (r *recipe) key(f frames, k Key) frames {
	f = f.add(r.fingerprint)
	f = f.add(canonicalHost(k.Host))
	_, target := originForm(k.Host, k.Target)
	path, raw, hasQuery := strings.Cut(target, "?")
	query := target[len(path):]
	if hasQuery && r.narrows() {
		query = "?" + r.query(raw)
	}
	f = f.add(path).add(query)
	if r.keyBy {
		f = f.add(digest(k.By))
	}
	for _, name := range r.secret {
		f = f.add(digest(string(frames{}.list(k.Header[name]))))
	}
	return f
}

// narrows reports whether the route leaves something of the query out of the key.
func (r *recipe) narrows() bool { return len(r.keyQuery) > 0 || len(r.ignoreQuery) > 0 }

// originForm takes a request target in absolute form apart that names the request's own host: http://shop.example/a is the same
// resource as /a (RFC 9112 3.2.2), and goes with it when it is invalidated. Any other target is returned as it is.
func originForm(host, target string) (scheme, rest string) {
	if strings.HasPrefix(target, "/") {
		return "", target
	}
	for _, scheme := range [...]string{"http://", "https://"} {
		if rest, ok := strings.CutPrefix(target, scheme); ok {
			at := strings.IndexAny(rest, "/?")
			if at < 0 {
				at = len(rest)
			}
			if authority, rest := rest[:at], rest[at:]; canonicalHost(authority) == canonicalHost(host) {
				return scheme, "/" + strings.TrimPrefix(rest, "/")
			}
		}
	}
	return "", target
}

// canonicalHost lower-cases a host and drops a default port.
func canonicalHost(h string) string {
	h = headers.Lower(h)
	if rest, ok := strings.CutSuffix(h, ":80"); ok {
		return rest
	}
	return strings.TrimSuffix(h, ":443")
}

// query reduces a raw query to what the key options leave of it. Pairs are kept as received, because what
// url.ParseQuery makes of odd ones is not what every handler makes of them; a pair whose name cannot be
// decoded always stays.
func (r *recipe) query(raw string) string {
	if !r.narrows() || raw == "" {
		return raw
	}
	type pair struct{ name, raw string }
	var kept []pair
	for p := range strings.SplitSeq(raw, "&") {
		encoded, _, _ := strings.Cut(p, "=")
		name, err := url.QueryUnescape(encoded)
		if err != nil || strings.Contains(p, ";") {
			kept = append(kept, pair{p, p})
			continue
		}
		if len(r.keyQuery) > 0 && !slices.Contains(r.keyQuery, name) || slices.ContainsFunc(r.ignoreQuery, func(pattern string) bool { return matches(pattern, name) }) {
			continue
		}
		kept = append(kept, pair{name, p})
	}
	if len(r.keyQuery) > 0 { // the order of names does not matter, the order of one name's values does
		slices.SortStableFunc(kept, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	}
	var f frames
	for _, p := range kept {
		f = f.add(p.raw)
	}
	return string(f)
}

func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}

// chosen frames what makes variants of a key besides Vary: the headers and cookies that the route chose, and
// the current URL where something rewrote it, so that the handler sees another one than the client asked for
// (two StripPrefix mounts of one handler), or where the client asked in absolute form, because the handler sees the scheme. It
// is "" if there is nothing of that.
func (r *recipe) chosen(x host.Exchange) string {
	scheme, target := originForm(x.Host(), x.Target())
	path, query, _ := strings.Cut(target, "?")
	rewritten := scheme != "" || path != x.Path() || query != x.Query()
	if len(r.headers) == 0 && len(r.cookies) == 0 && !rewritten {
		return ""
	}
	var f frames
	switch {
	case scheme != "": // no path looks like that
		f = f.add(scheme + x.Path()).add(r.query(x.Query()))
	case rewritten:
		f = f.add(x.Path()).add(r.query(x.Query()))
	default:
		f = f.add("").add("")
	}
	for _, name := range r.headers {
		f = f.add(rfc9111.VaryValue(name, x.Values(name)))
	}
	for _, pair := range cookiePairs(x.Values("Cookie"), r.cookies) {
		f = f.add(pair)
	}
	return string(f)
}

// cookiePairs returns the cookies with these names, as received, in order.
func cookiePairs(lines, names []string) []string {
	var pairs []string
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			pair = strings.TrimSpace(pair)
			name, _, _ := strings.Cut(pair, "=")
			if slices.Contains(names, strings.TrimSpace(name)) {
				pairs = append(pairs, pair)
			}
		}
	}
	return pairs
}
