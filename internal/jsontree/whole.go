package jsontree

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Whole returns the value of a number that is whole and fits an int64, however
// it is written: 1e3 and 20.0 are whole numbers.
func Whole(n json.Number) (int64, bool) {
	if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return i, true
	}
	text := strings.ToLower(string(n))
	mantissa, power, scaled := strings.Cut(text, "e")
	exponent := 0
	if scaled {
		var err error
		if exponent, err = strconv.Atoi(power); err != nil {
			return 0, false
		}
	}
	digits, fraction, _ := strings.Cut(mantissa, ".")
	fraction = strings.TrimRight(fraction, "0")
	exponent -= len(fraction)
	digits += fraction
	if trimmed := strings.TrimRight(digits, "0"); exponent < 0 {
		// Zeros at the end stand for the places that the exponent takes away.
		if strings.Trim(trimmed, "-") == "" {
			return 0, true
		}
		if cut := len(digits) + exponent; cut < len(trimmed) {
			return 0, false
		} else {
			digits, exponent = digits[:cut], 0
		}
	}
	if strings.Trim(digits, "-0") == "" {
		return 0, digits != "" && digits != "-"
	}
	const most = 19 // digits of an int64
	if exponent > most {
		return 0, false
	}
	i, err := strconv.ParseInt(digits+"0000000000000000000"[:exponent], 10, 64)
	return i, err == nil
}
