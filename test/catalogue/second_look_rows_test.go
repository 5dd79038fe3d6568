package catalogue

// plain is what a program sees of itself when its image gave it nothing: no capability, and no way to get one.
const plain = "CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"

// filecapsRefused is what becomes of a program with file capabilities on a mount that isn't nosuid, as a container's root isn't: the kernel doesn't execute it
// for who may not have them (capabilities(7): "Safety checking for capability-dumb binaries").
const filecapsRefused = "outcome not_started EPERM"

// secondLookRows are images that give privilege to whoever executes them: A25. Setuid bits, file capabilities and interpreters act in execve, so
// that the kernel's word is asked once more after it: a control that doesn't hold then makes the outcome a mismatch.
var secondLookRows = []row{
	{id: "A25", what: "a setuid-root program", needs: []feature{setuidImages}, run: []string{"PRIVILEGED/setuid", "status"}, stderr: plain, readBack: "identity.uid no_new_privs"},
	{id: "A25", what: "a setgid-root program", needs: []feature{setuidImages}, run: []string{"PRIVILEGED/setgid", "status"}, stderr: plain, readBack: "identity.gid"},
	{id: "A25", what: "both bits", needs: []feature{setuidImages}, run: []string{"PRIVILEGED/setboth", "status"}, stderr: plain, readBack: "identity.uid identity.gid"},
	{id: "A25", what: "a program with every file capability", needs: []feature{setuidImages}, run: []string{"PRIVILEGED/filecaps", "status"}, stderr: plain,
		readBack: "capabilities.permitted capabilities.effective capabilities.bounding", pod: filecapsRefused},
	{id: "A25", what: "a setuid-root program does as little as any other", needs: []feature{setuidImages},
		run: []string{"PRIVILEGED/setuid", "each", "setuid", "--", "open", "/etc/shadow", "--", "mount"}, stdout: `"setuid","refused":true,`},
	{id: "A25", what: "a program that becomes a setuid-root one", needs: []feature{setuidImages}, run: []string{"PROBE", "become", "PRIVILEGED/setuid", "status"}, stderr: plain},
	{id: "A25", what: "the same by a descriptor", needs: []feature{setuidImages}, run: []string{"PROBE", "become-fd", "PRIVILEGED/setboth", "status"}, stderr: plain},
	{id: "A25", what: "one that becomes a program with file capabilities", needs: []feature{setuidImages}, run: []string{"PROBE", "become", "PRIVILEGED/filecaps", "status"}, stderr: plain, pod: "stderr !CapEff"},
	{id: "A25", what: "a vfork child that is a setuid-root program", needs: []feature{setuidImages}, run: []string{"PROBE", "spawn", "PRIVILEGED/setuid", "status"}, stderr: plain},
	{id: "A25", what: "a vfork child with file capabilities", needs: []feature{setuidImages}, run: []string{"PROBE", "spawn", "PRIVILEGED/filecaps", "status"}, stderr: plain, pod: "stderr !CapEff"},
	{id: "A25", what: "a chain of both", needs: []feature{setuidImages},
		run: []string{"PRIVILEGED/setuid", "spawn", "PRIVILEGED/filecaps", "become", "PRIVILEGED/setgid", "status"}, stderr: plain, pod: "stderr !CapEff"},
	{id: "A25", what: "a setuid-root script", needs: []feature{setuidImages}, run: []string{"PRIVILEGED/setuid-script"}, stderr: plain},
	{id: "A25", what: "a script whose interpreter is setuid-root", needs: []feature{setuidImages}, run: []string{"PRIVILEGED/script-of-setuid"}, stderr: plain},
	{id: "A25", what: "a program that one makes setuid oneself", run: []string{"PROBE", "copy-setuid", "/work"}, stderr: plain, readBack: "no_new_privs"},
	{id: "A25", what: "the system's own setuid programs, if it has them", run: []string{"sh", "-c", "for p in su mount passwd sudo newuidmap chsh; do p=$(command -v $p) && test -u $p && $p </dev/null; done; exec PROBE status"},
		stderr: plain},
	{id: "A25", what: "no file capability can be given", try: `
		setxattr /work                   → EPERM
		chown /work                      → EPERM (user: EINVAL)`, readBack: "capabilities.effective"},
	{id: "A25", what: "a script", run: []string{"SHOW/script", "one", "two"}, stdout: "SHOW/script one two\n"},
	{id: "A25", what: "a script of a script", run: []string{"SHOW/script-of-script"}, stderr: plain},
	{id: "A25", what: "a script that a program becomes by a descriptor", run: []string{"PROBE", "become-fd", "SHOW/script"}, stdout: "/dev/fd/"},
	{id: "A25", what: "a program that blocks every signal, which isn't one that was started so", run: []string{"PROBE", "deaf", "700"}, stdout: `"refused":false`,
		readBack: "signals.blocked"},
	{id: "A25", what: "a vfork child that is a script", run: []string{"PROBE", "spawn", "SHOW/script"}, stdout: "SHOW/script\n"},
}
