#!/bin/sh
# Runs inside of the machine, in the directory that run.sh filled. Its first root is the initramfs, which pivot_root(2) can't leave, so that no
# sandbox could be made on it: a tmpfs with the layout of an ordinary system is moved over it, as switch_root does, and the tests run there.
set -eu

here=$(pwd)
root=/root.new
mkdir $root
test ! -e fuse.ko || insmod fuse.ko
mount -t tmpfs -o mode=0755 root $root
for dir in usr/bin usr/sbin usr/lib etc dev proc sys tmp run var/tmp home; do mkdir -p $root/$dir; done
for link in bin sbin lib; do ln -s usr/$link $root/$link; done
cp /bin/busybox $root/usr/bin/
chroot $root /usr/bin/busybox --install -s /usr/bin
# Programs of the host, with the libraries that they load: most of what runs in a sandbox is of that kind. rm: their names are links to busybox.
for program in "$here"/dynamic/bin/*; do
	rm -f "$root/usr/bin/${program##*/}"
	mv "$program" $root/usr/bin/
done
mkdir $root/usr/lib64 && ln -s usr/lib64 $root/lib64
mv "$here"/dynamic/lib/* $root/usr/lib/
ln -s ../lib/ld-linux-x86-64.so.2 $root/usr/lib64/
cp /etc/passwd /etc/group $root/etc/
mv "$here"/tests $root/tests

mount --move /dev $root/dev
mount --move /proc $root/proc
mount --move /sys $root/sys
mount -t tmpfs -o mode=1777 tmp $root/tmp
mount -t tmpfs -o mode=0755 run $root/run
chmod 1777 $root/var/tmp
# Not a chroot: what is moved over / is the root of the mount namespace from here on.
cd $root
mount --move . /
exec chroot . /usr/bin/env -i PATH=/usr/bin:/usr/sbin HOME=/tmp TMPDIR=/tmp SANDBOXD_BIN=/tests/bin SANDBOXD_REQUIRE_CGROUP=1 \
	/usr/bin/busybox sh /tests/tests.sh
