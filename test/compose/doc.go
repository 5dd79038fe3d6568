// Package compose tests deploy/compose.yaml: that Compose's own loader reads it, strictly; that each service is as tight as it says; and that what it says runs,
// as bundles of runc, where no engine is installed that could run the file itself.
package compose
