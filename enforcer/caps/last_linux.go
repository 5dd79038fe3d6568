package caps

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Last is the highest capability that this kernel knows. A bounding set is only empty when all up to it are dropped, so a guess won't do.
func Last() (int, error) {
	const file = "/proc/sys/kernel/cap_last_cap"
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	last, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || last < 0 || last > 63 {
		return 0, fmt.Errorf("%s: %q", file, data)
	}
	return last, nil
}
