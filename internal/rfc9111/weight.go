package rfc9111

import "strings"

// parseWeight parses the parameters of a member as a weight (RFC 9110 12.4.2): "q=" and a number from 0 to 1 with at most three
// decimals, which is returned in thousandths.
func parseWeight(parameters string) (thousandths int, ok bool) {
	parameters = strings.Trim(parameters, " \t")
	if len(parameters) < 2 || !strings.EqualFold(parameters[:2], "q=") {
		return 0, false
	}
	whole, decimals, _ := strings.Cut(parameters[2:], ".")
	if whole != "0" && whole != "1" || len(decimals) > 3 {
		return 0, false
	}
	for _, digit := range whole + (decimals + "000")[:3] {
		if digit < '0' || digit > '9' {
			return 0, false
		}
		thousandths = 10*thousandths + int(digit-'0')
	}
	return thousandths, thousandths <= 1000
}

// weightParameter is the shortest form of a weight behind its member, "" for 1, which is the default.
func weightParameter(thousandths int) string {
	if thousandths >= 1000 {
		return ""
	}
	decimals := string([]byte{'0' + byte(thousandths/100), '0' + byte(thousandths/10%10), '0' + byte(thousandths%10)})
	return ";q=" + strings.TrimRight(strings.TrimRight("0."+decimals, "0"), ".")
}
