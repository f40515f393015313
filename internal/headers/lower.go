package headers

// Lower returns s with its ASCII letters in lower case, and every other byte as it is: what makes case insignificant in HTTP is
// about ASCII only. strings.ToLower makes the same of the Kelvin sign and k, and of all bytes that are no UTF-8.
func Lower(s string) string {
	for i := range len(s) {
		if isUpper(s[i]) {
			lower := []byte(s)
			for ; i < len(lower); i++ {
				if isUpper(lower[i]) {
					lower[i] |= 0x20
				}
			}
			return string(lower)
		}
	}
	return s
}

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
