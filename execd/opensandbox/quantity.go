package opensandbox

import (
	"math/big"
	"strings"
)

// suffixes of quantities as Kubernetes writes them.
var suffixes = []struct {
	text   string
	factor *big.Rat
}{
	{"Ki", power(1024, 1)}, {"Mi", power(1024, 2)}, {"Gi", power(1024, 3)}, {"Ti", power(1024, 4)}, {"Pi", power(1024, 5)},
	{"m", big.NewRat(1, 1000)}, {"k", power(1000, 1)}, {"M", power(1000, 2)}, {"G", power(1000, 3)}, {"T", power(1000, 4)}, {"P", power(1000, 5)},
	{"", big.NewRat(1, 1)},
}

func power(base int64, exponent int64) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(base), big.NewInt(exponent), nil))
}

// longestQuantity bounds what is parsed.
const longestQuantity = 32

// quantity reads a decimal number with a suffix of Kubernetes', such as 500m, 2Gi or 1.5; false: it isn't one.
func quantity(text string) (*big.Rat, bool) {
	if len(text) > longestQuantity {
		return nil, false
	}
	for _, suffix := range suffixes {
		digits, found := strings.CutSuffix(text, suffix.text)
		if !found {
			continue
		}
		if digits == "" || strings.Trim(digits, "0123456789.") != "" || strings.Count(digits, ".") > 1 || digits == "." {
			return nil, false
		}
		number, ok := new(big.Rat).SetString(digits)
		if !ok {
			return nil, false
		}
		return number.Mul(number, suffix.factor), true
	}
	return nil, false
}
