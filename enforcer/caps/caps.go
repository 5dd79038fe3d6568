// Package caps names Linux capabilities (capabilities(7)) and gives the steps by which a child loses all of them.
package caps
