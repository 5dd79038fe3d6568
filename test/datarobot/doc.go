// Package datarobot drives what sandboxd offers to programs and clients of DataRobot's sandbox with the vectors observed from the reference:
// `run` of a real daemon, and the drop-in runner. SANDBOXD_CONFORMANCE names the folder that has them.
package datarobot
