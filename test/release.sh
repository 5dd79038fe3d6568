#!/usr/bin/env bash
# What deploy/release.sh makes: both programs for both architectures, static, of the right machine, the launcher small; the same bytes when they are built once more
# from a copy elsewhere without version control; bills of materials that name what is in them; and an image that doesn't run as root.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export VERSION=v0.0.0-test
deploy/release.sh "$work/here"
[[ $("$work/here/linux-$(go env GOARCH)/sandboxd" version) == "sandboxd $VERSION "* ]] || { echo 'FAIL	the version'; exit 1; }
mkdir "$work/elsewhere"
git ls-files -z | tar --null --files-from=- -cf - | tar -xf - -C "$work/elsewhere"
"$work/elsewhere/deploy/release.sh" "$work/there"
diff -r "$work/here" "$work/there" || { echo "FAIL	two builds differ"; exit 1; }
(cd "$work/here" && sha256sum --quiet --check SHA256SUMS)
echo "ok  	two builds are the same"

for arch in amd64 arm64; do
	for program in sandboxd sandboxd-runner; do
		python3 - "$work/here/linux-$arch/$program" "$arch" "$program" <<'PYTHON'
import json, struct, sys
path, arch, program = sys.argv[1:]
data = open(path, "rb").read()
assert data[:6] == b"\x7fELF\x02\x01", "no 64-bit little-endian ELF file"
machine, = struct.unpack_from("<H", data, 18)
assert machine == {"amd64": 62, "arm64": 183}[arch], f"machine {machine}"
offset, = struct.unpack_from("<Q", data, 32)
size, count = struct.unpack_from("<HH", data, 54)
kinds = [struct.unpack_from("<I", data, offset + i * size)[0] for i in range(count)]
assert 3 not in kinds and 2 not in kinds, "it has an interpreter, or is linked dynamically"
if program == "sandboxd-runner":
    assert len(data) < 4 << 20, f"{len(data)} bytes"
bill = json.load(open(path + ".cdx.json"))
assert bill["bomFormat"] == "CycloneDX", bill["bomFormat"]
names = {c["name"] for c in bill["components"]}
assert "golang.org/x/sys" in names, names
assert ("github.com/open-policy-agent/opa" in names) == (program == "sandboxd"), names
print(f"ok  \t{program} for {arch}: static, {len(data)} bytes, {len(names)} modules in its bill of materials")
PYTHON
	done
done

# The image: nothing but what was built, and nobody's uid unless a pod says otherwise.
user=$(sed -n 's/^USER //p' deploy/image/Dockerfile | tail -n 1)
base=$(sed -n 's/^FROM \(--platform=[^ ]* \)\?//p' deploy/image/Dockerfile | tail -n 1)
[[ $base == scratch && $user =~ ^[1-9][0-9]*:[1-9][0-9]*$ ]] || { echo "FAIL	the image is of $base, as ${user:-root}"; exit 1; }
echo "ok  	the image is of $base, as $user"
