package seccomp

// actionWords are the actions of the runtime specification.
var actionWords = [...]struct {
	word   string
	action Action
}{
	{"SCMP_ACT_ALLOW", Allow},
	{"SCMP_ACT_ERRNO", errno},
	{"SCMP_ACT_KILL", KillThread}, // libseccomp's old name of it
	{"SCMP_ACT_KILL_PROCESS", KillProcess},
	{"SCMP_ACT_KILL_THREAD", KillThread},
	{"SCMP_ACT_LOG", Log},
	{"SCMP_ACT_TRACE", trace},
	{"SCMP_ACT_TRAP", Trap},
}

var operators = [...]struct {
	word string
	op   Op
}{
	{"SCMP_CMP_EQ", Equal},
	{"SCMP_CMP_GE", GreaterEqual},
	{"SCMP_CMP_GT", Greater},
	{"SCMP_CMP_LE", LessEqual},
	{"SCMP_CMP_LT", Less},
	{"SCMP_CMP_NE", NotEqual},
}

var architectures = [...]string{
	"SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM", "SCMP_ARCH_LOONGARCH64", "SCMP_ARCH_M68K", "SCMP_ARCH_MIPS", "SCMP_ARCH_MIPS64", "SCMP_ARCH_MIPS64N32",
	"SCMP_ARCH_MIPSEL", "SCMP_ARCH_MIPSEL64", "SCMP_ARCH_MIPSEL64N32", "SCMP_ARCH_PARISC", "SCMP_ARCH_PARISC64", "SCMP_ARCH_PPC", "SCMP_ARCH_PPC64",
	"SCMP_ARCH_PPC64LE", "SCMP_ARCH_RISCV64", "SCMP_ARCH_S390", "SCMP_ARCH_S390X", "SCMP_ARCH_SH", "SCMP_ARCH_SHEB", "SCMP_ARCH_X32", "SCMP_ARCH_X86",
	"SCMP_ARCH_X86_64",
}

// conditionArches are moby's names in includes and excludes.
var conditionArches = [...]string{
	"amd64", "arm", "arm64", "loongarch64", "mips", "mips3l64n32", "mips64", "mips64n32", "mipsel", "mipsel64", "parisc", "parisc64", "ppc", "ppc64",
	"ppc64le", "riscv64", "s390", "s390x", "x32", "x86",
}

// nearest is the word with the fewest changes from w, "" if none is close.
func nearest(w string, words []string) string {
	if len(w) > 64 {
		return ""
	}
	best, least := "", len(w)/2+2
	for _, candidate := range words {
		if d := distance(w, candidate); d < least {
			best, least = candidate, d
		}
	}
	return best
}

func nearestCall(w string) string {
	words := make([]string, len(calls))
	for i, c := range calls {
		words[i] = c.name
	}
	return nearest(w, words)
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
