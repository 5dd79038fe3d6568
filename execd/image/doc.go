// Package image keeps the images of one machine: root file systems that sandboxes share, read-only, each under the digest of what it is.
//
// An image comes from a saved tar (docker save, podman save), from an OCI layout (a directory or a tar), or from a plain root (a directory or a tar). It is
// unpacked once, checked against every digest that it says of itself, and then renamed into its place: a directory that has its name is whole.
//
//	<directory>/names.json               which name means which image
//	<directory>/sha256-<hex>/image.json  what is known of it: [Image]
//	<directory>/sha256-<hex>/root/       its files
//	<directory>/sha256-<hex>/upper/      empty; where a sandbox mounts what it writes
//	<directory>/new-<random>/            one that is being unpacked, locked meanwhile
//
// Whoever made an image isn't trusted. Every name is resolved beneath the new root by the kernel (openat2), nothing is made through a link that leaves it,
// and what could give something to who meets the files outside of a sandbox is left out: devices, setuid and setgid bits, file capabilities and all other
// extended attributes, which overlayfs would read as its own too. How much is unpacked is bounded before it is.
package image
