# METADATA
# title: The decision
# description: >-
#   The one entrypoint. Each question (caller, context, exec, file, image, network, limits) has a folder, whose rules put labels into `proven` and reasons
#   into `deny`. A request passes when every label below is proven and nobody speaks against it: a rule that is lost, misspelt or undefined
#   proves nothing, and so denies.
package sandboxd

import data.sandboxd.caller
import data.sandboxd.context
import data.sandboxd.exec
import data.sandboxd.file
import data.sandboxd.image
import data.sandboxd.limits
import data.sandboxd.network

# METADATA
# title: What must be proven
# description: The labels without which nothing passes.
# labels:
#   rule: main.required
required := {
	"caller.uid",
	"caller.via",
	"context.allowPrivilegeEscalation",
	"context.capabilities.add",
	"context.capabilities.drop",
	"context.privileged",
	"context.procMount",
	"context.readOnlyRootFilesystem",
	"context.runAsGroup",
	"context.runAsNonRoot",
	"context.runAsUser",
	"context.seccompProfile",
	"context.supplementalGroups",
	"exec.argv",
	"exec.cwd",
	"exec.env",
	"exec.program",
	"exec.shape",
	"exec.terminal",
	"file.operation",
	"file.path",
	"image.known",
	"image.listed",
	"limits.maximum",
	"main.action",
	"main.input",
	"network.egress",
	"run.language",
}

# METADATA
# title: What is proven
# description: The labels that the questions have proven of this request.
# labels:
#   rule: main.proven
proven := union({caller.proven, context.proven, exec.proven, file.proven, image.proven, limits.proven, network.proven, actions, complete})

# METADATA
# title: The action is one that this policy knows
# description: Actions are listed in data, settings.actions.
# labels:
#   rule: main.action
actions contains "main.action" if input.action in data.settings.actions

# METADATA
# title: Action not allowed
# description: An action that isn't listed in data, settings.actions, is refused.
# labels:
#   rule: main.action
deny contains reason if {
	not input.action in data.settings.actions
	reason := {
		"rule": "main.action",
		"message": sprintf("This action is not allowed; allowed are: %s.", [concat(", ", data.settings.actions)]),
		"field": "action",
	}
}

# METADATA
# title: Everything that speaks against the request
# description: The reasons of all questions; all are looked at, none hides another.
# labels:
#   rule: main.spoken
spoken := union({caller.deny, context.deny, exec.deny, file.deny, image.deny, limits.deny, network.deny, deny})

# METADATA
# title: Required and not proven
# description: Nothing may be left.
# labels:
#   rule: main.unproven
missing := required - proven

# METADATA
# title: Not proven
# description: What no rule spoke against and no rule could prove is refused as well.
# labels:
#   rule: main.unproven
unproven contains reason if {
	some label in (missing - {reason.rule | some reason in spoken})
	reason := {
		"rule": label,
		"message": sprintf("Nothing in this policy proves %q of the request, and only what is proven passes.", [label]),
		"field": "",
	}
}

# METADATA
# title: All reasons
# description: What was said against the request and what could not be proven.
# labels:
#   rule: main.reasons
reasons := spoken | unproven

# METADATA
# title: Deny unless everything is proven
# description: The default.
# labels:
#   rule: main.allow
default allow := false

# METADATA
# title: Allow
# description: Every required label is proven and nothing speaks against the request.
# labels:
#   rule: main.allow
allow if {
	count(missing) == 0
	count(spoken) == 0
}

# METADATA
# title: The decision
# description: >-
#   What sandboxd asks for. `effective` names only what this policy tightens; everything absent stays as requested.
# entrypoint: true
# labels:
#   rule: main.decision
decision := {
	"allow": allow,
	"reasons": reasons,
	"effective": object.union({"onOutputLimit": data.settings.on_output_limit, "explainDenials": data.settings.explain_denials}, context.effective),
	"accept": data.settings.accept,
	"labels": data.settings.labels,
}
