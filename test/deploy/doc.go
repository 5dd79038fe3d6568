// Package deploy tests what sandboxd is installed by: that what the files of deploy/ give is what it needs, no less and no more.
package deploy
