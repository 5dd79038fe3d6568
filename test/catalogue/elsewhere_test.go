package catalogue

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// scenarios are the groups A, B, C and F of the list, whole: kernel and privilege, processes and time, output and result, socket, files and read-back.
const scenarios = `
	A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11 A12 A13 A14 A15 A16 A17 A18 A19 A21 A22 A23 A24 A25 A26 A28 A29 A30 A31 A32
	B1 B2 B3 B4 B5 B6 B7 B8 B9 B10 B11 B12 B13 B15 B16 B17 B19 B20 B21 B22
	C1 C2 C4 C5 C6 C7 C9 C10 C11 C12 C13 C14 C15 C16 C17
	F1 F2 F4 F5 F6 F7 F8 F9 F10 F11 F13 F14 F15 F16 F17 F18 F19 F20 F21`

// elsewhere names the tests that hold a scenario, or a part of one, that no row can ask of a daemon: what has to be arranged inside of it, in its
// kernel, or around it. "folder.TestName".
var elsewhere = map[string]string{
	"A1":  "runner.TestOpenBinary runner.TestSameUIDAttacker",
	"A3":  "enforcer/mount.TestIsDevice enforcer.TestCheckSandboxMountDrift runner.TestSandboxDriftIsNoticed",
	"A4":  "enforcer/mount.TestApplyRefuses enforcer.TestCheckSandboxMountDrift",
	"A5":  "enforcer/mount.TestApplyRefuses runner.TestLauncherEveryStepIsMissed",
	"A6":  "enforcer/mount.TestApplyRefuses enforcer/mount.TestSourcesShow",
	"A7":  "enforcer/mount.TestApplyShowsNothingCovered enforcer/mount.TestApply",
	"A12": "enforcer/seccomp.TestForeignEntriesAreKilled",
	"A13": "enforcer/seccomp.TestForeignEntriesAreKilled",
	"A15": "enforcer/seccomp.TestForbidden enforcer/seccomp.TestKernelAgrees",
	"A17": "runner.TestSameUIDAttacker runner.TestTreeAttacksItsWorker",
	"A19": "runner.TestTreeSetsTheLimitsOfOthers",
	"A22": "runner.TestSandboxWipesSystemV runner.TestEntriesWaitForTheWipe",
	"A25": "test/catalogue.TestBinfmtMisc execd.TestMismatchAfterExecve enforcer.TestCheckStartedNoticesEveryChange",
	"A26": "policy.TestWithinRefusesEverySingleLoosening enforcer.TestBuildNeverGivesMore",
	"A30": "enforcer.TestBuiltinProfiles",
	"A31": "enforcer.TestBuildRefuses enforcer.TestBuildAcceptIsForLacksOnly enforcer/landlock.TestForNeverGrantsMore",
	"A32": "enforcer.TestCheckNoticesEveryChange enforcer/procfs.TestThreadsAreAll",

	"B1":  "runner.TestStreamKeptOpen runner.TestTreeAfterLeader",
	"B2":  "runner.TestTreeKilled",
	"B5":  "test/catalogue.TestHungFileSystem",
	"B7":  "runner.TestForkBomb enforcer/cgroup.TestKillEmptiesTheTree",
	"B8":  "runner.TestExecWithoutPassPidfd enforcer.TestObserveOfTheDead",
	"B9":  "runner.TestOrphansReaped test/faults.TestNothingLeaks",
	"B11": "runner.TestStress runner.TestDaemonGone",
	"B12": "execd.TestKilledDaemon test/faults.TestKillAtAnyMoment test/faults.TestDaemonDiesAtEachPoint",
	"B13": "test/catalogue.TestDeadlineRace execd.TestOutcome",
	"B16": "enforcer/cgroup.TestOOMKills runner.TestOOMOfAGrandchild",
	"B20": "test/catalogue.TestClientGoesAway execd.TestStreamCancelsWhenTheClientIsGone test/faults.TestClientsThatLeave",
	"B21": "execd.TestCPULimit execd.TestCPUSeconds",
	"B22": "test/faults.TestCrowd execd.TestBusyAtOnce",

	"C1":  "runner.TestOutputMemoryIsFlat execd.TestStreamQueueIsBounded",
	"C7":  "runner/python.TestHostileNeighbour test/datarobot.TestParser",
	"C9":  "execd/datarobot.TestParseMarker execd.TestResultMarker",
	"C11": "runner/python.TestReadResult",
	"C12": "runner/python.TestEncodingIsThatOfJSON runner/python.TestValues",
	"C14": "runner/python.TestReadResultDeadline execd.TestRunLeavesNobodyWaiting",
	"C15": "test/catalogue.TestRequestsThatStop execd.TestSlowClients test/faults.TestSlowLoris",
	"C16": "execd.TestBadInput policy.TestParseFaults",
	"C17": "policy/engine.TestDecideDeny execd/audit.TestCanaryNeverReachesTheLog",

	"F1":  "execd.TestListenRefusesDirectories execd.TestListenReplacesOurDeadSocketOnly test/faults.TestSocketPaths",
	"F2":  "execd.TestStrangersAreClosed execd.TestStrangersAreRecordedOnceInASecond test/faults.TestWrongUser",
	"F4":  "test/faults.TestPassedDescriptors",
	"F5":  "test/faults.TestTokenMode test/faults.TestCallerOfAnotherPIDNamespace execd.TestTokenCallers",
	"F6":  "enforcer/mount.TestSourcesHaveNoSockets execd.TestShowRefusesWhatIsOurs runner.TestNetworkActsHold execd.TestProvenRelay",
	"F7":  "runner/file.TestPathsThatLeadOut execd.TestFileDenied",
	"F8":  "runner/file.TestRaces execd.TestFileRaces",
	"F9":  "runner/file.TestPathsThatLeadOut",
	"F10": "runner/file.TestKinds execd.TestFileOfAnotherKind",
	"F11": "runner/file.TestKinds execd.TestFileOfAnotherKind",
	"F13": "runner/file.TestFileThatChangesWhileItIsRead execd.TestFileCaps",
	"F14": "runner/file.TestKinds execd.TestFileOfAnotherKind execd.TestNoArchives",
	"F15": "runner/file.TestWriteThatFails execd.TestFileSystemsThatTakeNothing",
	"F16": "runner/file.TestMode runner/file.TestPathsThatLeadOut",
	"F17": "runner.TestFileUnderEveryProfile runner/file.TestFaultsHaveNames",
	"F18": "test/mutation.TestEveryStepIsMissed execd.TestMismatchIsNeverStarted runner.TestLauncherEveryStepIsMissed",
	"F19": "enforcer.TestObserveWithoutTheRightIsAnError enforcer.TestCheckOfNothingDoesNotHold",
	"F20": "execd.TestDriftKills execd.TestDriftDenies execd.TestDriftInThePool execd.TestDriftAtTheGate execd.TestNoDrift",
	"F21": "execd.TestVerify execd.TestVerifyFindsWhatIsNotHeld runner.TestProbesHold runner.TestProbesTell",
}

// TestEveryScenario: none is missing, and none is held by a name only.
func TestEveryScenario(t *testing.T) {
	wanted := strings.Fields(scenarios)
	held := map[string]bool{}
	for _, r := range rows() {
		if !slices.Contains(wanted, r.id) {
			t.Errorf("row %q is of no scenario", r.name())
		}
		held[r.id] = true
	}
	for id := range elsewhere {
		if !slices.Contains(wanted, id) {
			t.Errorf("%s is no scenario", id)
		}
	}
	for _, id := range wanted {
		if !held[id] && elsewhere[id] == "" {
			t.Errorf("%s: nothing holds it", id)
		}
	}
	for id, names := range elsewhere {
		for name := range strings.FieldsSeq(names) {
			if why := missing(t, name); why != "" {
				t.Errorf("%s: %s", id, why)
			}
		}
	}
}

// TestThreatModel: what the document points at is there.
func TestThreatModel(t *testing.T) {
	document, err := os.ReadFile(filepath.Join(source(t), "docs", "threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`([a-z/]+\\.Test[A-Za-z0-9]+)`").FindAllSubmatch(document, -1)
	if len(names) < 20 {
		t.Errorf("the document names %d tests", len(names))
	}
	for _, name := range names {
		if why := missing(t, string(name[1])); why != "" {
			t.Error(why)
		}
	}
	wanted := strings.Fields(scenarios)
	for _, id := range regexp.MustCompile(`\b[ABCF][0-9]+\b`).FindAllString(string(document), -1) {
		if !slices.Contains(wanted, id) {
			t.Errorf("%s is no scenario of A, B, C, F", id)
		}
	}
}

// source is the root of the source tree; without it, where only the programs are, this can't be asked.
func source(t *testing.T) string {
	t.Helper()
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Skip("SKIP: no source tree here")
	}
	return root
}

// missing says what is wrong with the name of a test.
func missing(t *testing.T, name string) string {
	t.Helper()
	folder, test, _ := strings.Cut(name, ".")
	files, err := filepath.Glob(filepath.Join(source(t), folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+test+"(") {
			return ""
		}
	}
	return fmt.Sprintf("there is no test %s in %s", test, folder)
}
