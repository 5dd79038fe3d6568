package network

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// held is the table of group D, the attempts to get out or to somewhere else: which tests hold each of them. "rows" are those of [rows], each tried behind the
// fence (TestGroupD) and in a sandbox (TestGroupDInASandbox); "inside" are [insideRows]; the rest are tests, by the folder that they are in.
var held = []struct {
	id, scenario string
	by           []string
}{
	{"D1", "an empty list of what is allowed", []string{"rows", "enforcer/network TestScenarios", "enforcer/network TestNoRulesDeny"}},
	{"D2", "nothing said of a network", []string{"rows", "enforcer/network TestScenarios"}},
	{"D3", "evil-example.com for example.com", []string{"rows", "enforcer/network TestScenarios"}},
	{"D4", "a wildcard and its apex", []string{"rows", "enforcer/network TestScenarios"}},
	{"D5", "another spelling of a name: letters, a dot at its end", []string{"rows", "enforcer/network TestScenarios"}},
	{"D6", "look-alikes in other alphabets", []string{"rows", "test/network TestRefusedRules", "enforcer/network TestScenarios"}},
	{"D7", "NUL, percent, blanks, @, backslash in a name", []string{"rows", "test/network TestRefusedRules", "enforcer/network TestScenarios"}},
	{"D8", "a deep name under a wildcard", []string{"rows", "enforcer/network TestScenarios"}},
	{"D9", "a wildcard for a public suffix, or for all", []string{"test/network TestRefusedRules", "enforcer/network TestRefusedSpecs"}},
	{"D10", "a CNAME to a host that isn't allowed", []string{"rows"}},
	{"D11", "data in queries", []string{"rows", "enforcer/network/names TestLimits"}},
	{"D12", "other types of query", []string{"rows", "enforcer/network/names TestAnswers"}},
	{"D14", "queries by TCP, fragments, EDNS", []string{"rows", "enforcer/network/names TestTCP", "enforcer/network/names TestPackets"}},
	{"D15", "DNS over TLS, QUIC, HTTPS", []string{"rows"}},
	{"D16", "another resolver", []string{"rows"}},
	{"D17", "a name at a private, loopback, link-local or translated address", []string{"rows", "enforcer/network TestScenarios", "enforcer/network/relay TestDestinations"}},
	{"D18", "rebinding", []string{"test/network TestRebinding", "enforcer/network/relay TestRebinding"}},
	{"D19", "answers that hold too long, or for no time", []string{"enforcer/network/names TestTimesToLive"}},
	{"D20", "metadata, by every address and name", []string{"rows", "enforcer/network TestScenarios", "enforcer/network TestMetadataNamesAreFound"}},
	{"D23", "no address, broadcast, multicast", []string{"rows", "enforcer/network TestScenarios"}},
	{"D24", "IPv6 where rules speak of IPv4", []string{"rows", "enforcer/network TestScenarios"}},
	{"D25", "a redirect to metadata", []string{"rows"}},
	{"D26", "CONNECT to an address", []string{"rows", "enforcer/network/relay TestProxy"}},
	{"D27", "another name in TLS or HTTP, none, an encrypted one", []string{"rows", "enforcer/network/relay TestLooks", "enforcer/network/relay TestJudgedOverSockets"}},
	{"D28", "a neighbour at a shared address", []string{"rows"}},
	{"D29", "a split hello, TLS in TLS, something else on the port", []string{"rows", "enforcer/network/relay TestLooks"}},
	{"D30", "requests that two readers take for different ones", []string{"rows", "enforcer/network/relay TestLooks"}},
	{"D31", "raw sockets, ICMP, SCTP, QUIC", []string{"rows", "inside", "enforcer/network/fence TestClosed"}},
	{"D32", "a port that isn't listed", []string{"rows", "enforcer/network/relay TestDestinations"}},
	{"D33", "clients that know no proxy", []string{"rows", "test/network TestRefusedClients", "test/network TestRefusedClientsInASandbox"}},
	{"D34", "connections that live when rules get tighter", []string{"test/network TestTighterRulesCut", "test/network TestTighterRulesCutInASandbox", "enforcer/network/relay TestTighten"}},
	{"D35", "no CAP_NET_ADMIN, or nf_tables fails", []string{"test/network TestWithoutNetAdmin", "test/mutation TestEveryPartOfTheFenceIsMissed", "runner TestSandboxWithoutFence"}},
	{"D36", "relay or resolver die", []string{"test/network TestNothingPassesWithoutTheDaemon", "test/network TestDaemonKilled", "test/faults TestNetworkEnds", "enforcer/network/relay TestKilled"}},
	{"D37", "the daemon's uid, marks, devices, cgroups", []string{"inside", "test/network TestDaemonsIDs", "enforcer/network/fence TestPodRefuses", "enforcer/network/fence TestPodKeepsUIDsApart"}},
	{"D38", "the daemon's own ports and sockets", []string{"rows", "inside"}},
}

// TestEveryRowOfGroupDIsHeld: the table names rows and tests that there are.
func TestEveryRowOfGroupDIsHeld(t *testing.T) {
	sources := map[string]string{}
	has := func(folder, test string) bool {
		if _, read := sources[folder]; !read {
			files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				sources[folder] += string(data)
			}
		}
		return strings.Contains(sources[folder], "\nfunc "+test+"(t *testing.T) {")
	}
	in := func(rows []row, id string) bool {
		return slices.ContainsFunc(rows, func(r row) bool { return r.id == id })
	}
	for _, line := range held {
		for _, by := range line.by {
			folder, test, isTest := strings.Cut(by, " ")
			switch {
			case isTest && !has(folder, test), by == "rows" && !in(rows, line.id), by == "inside" && !in(insideRows, line.id):
				t.Errorf("%s, %s: there is no %s", line.id, line.scenario, by)
			}
		}
	}
	for _, row := range slices.Concat(rows, insideRows) {
		if !slices.ContainsFunc(held, func(line struct {
			id, scenario string
			by           []string
		}) bool {
			return line.id == row.id
		}) {
			t.Errorf("%s %s is in no line of the table", row.id, row.name)
		}
	}
}
