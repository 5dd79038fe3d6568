package runner

import (
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// networkRows has a plan's network acts tried, and gives the rows.
func networkRows(t testing.TB, s *Sandbox, plan enforcer.Plan) []policy.Row {
	t.Helper()
	acts := networkOnly(plan, s.config.Host.Arch)
	got, exit := tried(t, s, plan, namesOf(acts))
	if !exit.Known || exit.Status.ExitStatus() != 0 {
		t.Errorf("%+v", exit)
	}
	return enforcer.CheckActs(acts, got)
}

func networkOnly(plan enforcer.Plan, arch string) []enforcer.Act {
	return slices.DeleteFunc(enforcer.Acts(plan, arch), func(a enforcer.Act) bool { return !strings.HasPrefix(a.Name, "network.") })
}

// TestNetworkActsHold: nothing gets out, with a fence and without, whether Landlock knows TCP or not, and each act is told so by its errno.
func TestNetworkActsHold(t *testing.T) {
	for _, fenced := range []bool{true, false} {
		config := testConfig(t)
		if config.Host.Fence = config.Host.Fence && fenced; fenced && !config.Host.Fence {
			t.Logf("no fence here: %s", config.Host.FenceWhy)
			continue
		}
		plan, err := enforcer.BuildSandbox(config.Host, testSpec())
		if err != nil {
			t.Fatal(err)
		}
		config.Plan = plan
		s := startSandbox(t, config)
		for _, landlocked := range []bool{true, false} {
			plan := probePlan(t, s)
			if !landlocked {
				plan.Landlock.HandledNet = 0 // Linux before 6.7
			}
			rows := networkRows(t, s, plan)
			for _, row := range rows {
				if !row.Held {
					t.Errorf("fence %t, Landlock %t: %s: %s, want %s", fenced, landlocked, row.Control, row.Got, row.Want)
				}
			}
			if len(rows) < 25 {
				t.Errorf("fence %t: %d acts are few", fenced, len(rows))
			}
		}
		closeSandbox(t, s)
	}
}

// TestNetworkActsTell: where a part of the fence is missing, an act says so.
func TestNetworkActsTell(t *testing.T) {
	kerneltest.Require(t, kerneltest.Root)
	route := testConfig(t).Plan.Network.Route
	for name, row := range map[string]struct {
		sabotage func() error
		want     map[string]string
	}{
		"rules": {kerneltest.FlushRules, map[string]string{"network.another's address": "let through", "network.another's address, tcp": "let through"}},
		"routes": {func() error { return kerneltest.DeleteRoutes(route) }, map[string]string{
			"network.udp": "ENETUNREACH", "network.QUIC6": "ENETUNREACH", "network.tcp": "ENETUNREACH", "network.fast open": "ENETUNREACH",
			"network.another resolver": "ENETUNREACH",
		}},
	} {
		config := testConfig(t)
		if !config.Host.Fence {
			t.Skip(config.Host.FenceWhy)
		}
		s := startSandbox(t, config)
		inside(t, s, row.sabotage, "net")
		plan := probePlan(t, s)
		plan.Landlock.HandledNet = 0 // which would refuse before the fence does
		rows := networkRows(t, s, plan)
		for control, want := range row.want {
			i := slices.IndexFunc(rows, func(r policy.Row) bool { return r.Control == control })
			if i < 0 || rows[i].Held || rows[i].Got != want {
				t.Errorf("without %s, %s: want %s: %+v", name, control, want, rows)
			}
		}
		closeSandbox(t, s)
	}
}

// TestNetworkActsKnown: the binary knows each act that a plan may ask for.
func TestNetworkActsKnown(t *testing.T) {
	for _, network := range []string{enforcer.NetworkNone, enforcer.NetworkFence, enforcer.NetworkRelay, enforcer.NetworkFilter, enforcer.NetworkProxy} {
		acts := networkOnly(enforcer.Plan{Network: network}, "amd64")
		if len(acts) < 20 {
			t.Errorf("%s: %d acts", network, len(acts))
		}
		for _, act := range acts {
			if _, known := enforcer.NetworkActOf(strings.TrimPrefix(act.Name, "network.")); !known {
				t.Errorf("%s: nobody knows %s", network, act.Name)
			}
		}
	}
}

// BenchmarkNetworkActs is how long a program waits for each no, in microseconds: the median of all acts, that of the slowest act, and the worst of all.
// On a busy machine the worst is whichever act a processor was taken from, another one each time.
func BenchmarkNetworkActs(b *testing.B) {
	s := startSandbox(b, testConfig(b))
	plan := probePlan(b, s)
	acts := networkOnly(plan, s.config.Host.Arch)
	var all []int64
	by := map[string][]int64{}
	for b.Loop() {
		answers, _ := tryActs(b, s, plan, namesOf(acts))
		for _, answer := range answers {
			all = append(all, answer.Microseconds)
			by[answer.Act] = append(by[answer.Act], answer.Microseconds)
		}
	}
	slices.Sort(all)
	slowest, most := "", int64(0)
	for act, times := range by {
		slices.Sort(times)
		if median := times[len(times)/2]; median > most {
			slowest, most = act, median
		}
	}
	b.ReportMetric(float64(all[len(all)/2]), "µs-median-act")
	b.ReportMetric(float64(most), "µs-slowest-act-p50")
	b.ReportMetric(float64(all[len(all)*99/100]), "µs-p99")
	b.ReportMetric(float64(all[len(all)-1]), "µs-worst")
	b.Logf("the slowest of %d acts: %s", len(acts), slowest)
}
