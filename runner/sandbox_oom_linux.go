package runner

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// mayBeKilled gives a launcher, and all that it will start, the ordinary place in the order in which the kernel kills for memory. A daemon is often
// put out of that order (OOMScoreAdjust=-1000), and its children inherit: a program in a sandbox would then have a memory limit that nothing enforces,
// since the kernel finds nobody in its group whom it may kill, and on a machine without memory everybody else would go first.
func (s *Sandbox) mayBeKilled() error {
	own, err := oomScore("self")
	if err != nil || own >= 0 {
		return err
	}
	pid := strconv.Itoa(s.process.Pid)
	if err := os.WriteFile("/proc/"+pid+"/oom_score_adj", []byte("0"), 0); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	got, err := oomScore(pid)
	if err == nil && got != 0 {
		err = fmt.Errorf("sandbox: oom_score_adj of the launcher is %d, want 0", got)
	}
	return err
}

// oomScore reads the adjustment, -1000 (never) to 1000 (first).
func oomScore(pid string) (int, error) {
	text, err := os.ReadFile("/proc/" + pid + "/oom_score_adj")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}
