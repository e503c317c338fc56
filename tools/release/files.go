// The files of a release: bills of materials, checksums and digests.

package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// writeFiles writes what is published beside the tags: a bill of materials of each public module, the
// lines that go.sum files of users get, and the digests of these files.
func (r *release) writeFiles(ctx context.Context) error {
	if err := os.MkdirAll(r.files, 0o755); err != nil {
		return err
	}
	folder, err := filepath.Abs(r.files)
	if err != nil {
		return err
	}
	var names []string
	for _, m := range r.public() {
		name := strings.ReplaceAll(strings.TrimSuffix("leasewheel/"+m.rel, "/."), "/", "-") + "-" + r.version + ".cdx.json"
		if _, err := r.tool(ctx, m.folder, "cyclonedx-gomod", "mod", "-json", "-output", filepath.Join(folder, name), "."); err != nil {
			return err
		}
		names = append(names, name)
	}
	sums, err := r.sums(ctx)
	if err != nil {
		return err
	}
	sumName := "leasewheel-" + r.version + ".go.sum"
	if err := os.WriteFile(filepath.Join(folder, sumName), []byte(sums), 0o644); err != nil {
		return err
	}
	names = append(names, sumName)
	var digests strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&digests, "%x  %s\n", sha256.Sum256(text), name)
	}
	fmt.Fprintf(r.out, "%s: %d bills of materials and checksums\n", folder, len(names)-1)
	return os.WriteFile(filepath.Join(folder, "SHA256SUMS"), []byte(digests.String()), 0o644)
}

// sums lets the go command download the public modules from the clone, as users will from the origin,
// and returns their lines of go.sum.
func (r *release) sums(ctx context.Context) (string, error) {
	cache := r.clone + "-modules"
	args := []string{"mod", "download", "-json"}
	for _, m := range r.public() {
		args = append(args, m.path+"@"+r.version)
	}
	env := append(resolving(r.modules[0].path, r.clone), "GOMODCACHE="+cache, "GOFLAGS=-modcacherw")
	out, err := r.command(ctx, filepath.Dir(r.clone), env, "go", args...)
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	for from := json.NewDecoder(strings.NewReader(out)); from.More(); {
		var got struct{ Path, Version, Sum, GoModSum string }
		if err := from.Decode(&got); err != nil {
			return "", err
		}
		fmt.Fprintf(&lines, "%s %s %s\n%[1]s %[2]s/go.mod %[4]s\n", got.Path, got.Version, got.Sum, got.GoModSum)
	}
	return lines.String(), nil
}

// resolving returns the environment in which the go command gets the modules below a path from a
// repository on this machine.
func resolving(path, repo string) []string {
	return []string{
		"GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=url.file://" + repo + ".insteadOf",
		"GIT_CONFIG_VALUE_0=https://" + path,
		"GOPRIVATE=" + path,
		"GOWORK=off",
	}
}
