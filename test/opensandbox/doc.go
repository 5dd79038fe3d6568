// Package opensandbox drives OpenSandbox's own clients, unmodified, against a daemon as it is installed, in a network of the test's own.
package opensandbox
