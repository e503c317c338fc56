package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small are the files of a repository with two public modules and a private one.
var small = map[string]string{
	"go.mod":        "module github.com/example/small\n\ngo 1.26.0\n",
	"small.go":      "// Package small is small.\npackage small\n\n// Name is a name.\nfunc Name() string { return \"small\" }\n",
	"CHANGELOG.md":  "# Changelog\n\n## [Unreleased]\n\n- Something\n",
	"lock/a/go.mod": "module github.com/example/small/lock/a\n\ngo 1.26.0\n\nrequire github.com/example/small v0.0.0\n\nreplace github.com/example/small => ../..\n",
	"lock/a/a.go":   "// Package a needs small.\npackage a\n\nimport \"github.com/example/small\"\n\n// A is a name.\nvar A = small.Name()\n",
	"lock/a/check/go.mod": "module github.com/example/small/lock/a/check\n\ngo 1.26.0\n\nrequire github.com/example/small/lock/a v0.0.0\n\n" +
		"require github.com/example/small v0.0.0 // indirect\n\nreplace (\n\tgithub.com/example/small => ../../..\n\tgithub.com/example/small/lock/a => ..\n)\n",
	"lock/a/check/a.go": "// Package check needs a.\npackage check\n\nimport \"github.com/example/small/lock/a\"\n\n// A is a name.\nvar A = a.A\n",
}

// newSmall returns a release of the small repository.
func newSmall(t *testing.T, version string) (r *release, output *strings.Builder) {
	t.Helper()
	folder := t.TempDir()
	shell(t, folder, nil, "git", "init", "--quiet", "--initial-branch=main")
	identify(t, folder)
	for name, text := range small {
		write(t, filepath.Join(folder, name), text)
	}
	save(t, folder)
	output = new(strings.Builder)
	return &release{repo: folder, version: version, files: t.TempDir(), date: time.Date(2027, 2, 3, 0, 0, 0, 0, time.UTC), out: output}, output
}

// identify gives a repository a user, because a machine of CI has none.
func identify(t *testing.T, folder string) {
	t.Helper()
	shell(t, folder, nil, "git", "config", "user.name", "A")
	shell(t, folder, nil, "git", "config", "user.email", "a@example.com")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// save commits everything in a folder.
func save(t *testing.T, folder string) {
	t.Helper()
	shell(t, folder, nil, "git", "add", "--all")
	shell(t, folder, nil, "git", "commit", "--quiet", "--message=Change")
}

func read(t *testing.T, r *release, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.repo, name))
	require.NoError(t, err)
	return string(text)
}

func TestADryRunChangesNothing(t *testing.T) {
	t.Parallel()
	r, output := newSmall(t, "v0.1.0")
	before := shell(t, r.repo, nil, "git", "rev-parse", "HEAD")
	require.NoError(t, r.run(t.Context()))
	for _, part := range []string{"tags: v0.1.0 lock/a/v0.1.0\n", "CHANGELOG.md: ## [0.1.0] - 2027-02-03\n", "no release to compare with", "DO=1"} {
		assert.Contains(t, output.String(), part)
	}
	assert.Equal(t, before, shell(t, r.repo, nil, "git", "rev-parse", "HEAD"))
	assert.Empty(t, shell(t, r.repo, nil, "git", "status", "--porcelain"))
	assert.Empty(t, shell(t, r.repo, nil, "git", "tag"))
	bill, err := os.ReadFile(filepath.Join(r.files, "leasewheel-lock-a-v0.1.0.cdx.json"))
	require.NoError(t, err)
	assert.Contains(t, string(bill), `"name": "github.com/example/small"`)
}

func TestAReleaseIsOneCommitWithATagForEachPublicModule(t *testing.T) {
	t.Parallel()
	r, output := newSmall(t, "v0.1.0")
	r.do = true
	require.NoError(t, r.run(t.Context()))
	assert.Equal(t, "lock/a/v0.1.0\nv0.1.0\n", shell(t, r.repo, nil, "git", "tag", "--points-at", "HEAD"))
	assert.Equal(t, "Release v0.1.0\n", shell(t, r.repo, nil, "git", "log", "-1", "--format=%s"))
	assert.Equal(t, "2\n", shell(t, r.repo, nil, "git", "rev-list", "--count", "HEAD"))
	assert.Empty(t, shell(t, r.repo, nil, "git", "status", "--porcelain"))
	assert.Contains(t, output.String(), "git push --atomic origin HEAD v0.1.0 lock/a/v0.1.0\n")
	for _, name := range []string{"lock/a/go.mod", "lock/a/check/go.mod"} {
		assert.Contains(t, read(t, r, name), "github.com/example/small v0.1.0", name)
		assert.Contains(t, read(t, r, name), "replace", "for work in the repository")
	}
	assert.Contains(t, read(t, r, "CHANGELOG.md"), "## [Unreleased]\n\n## [0.1.0] - 2027-02-03\n\n- Something\n")
	sums, err := os.ReadFile(filepath.Join(r.files, "leasewheel-v0.1.0.go.sum"))
	require.NoError(t, err)
	assert.Regexp(t, `github.com/example/small/lock/a v0.1.0 h1:.*\n`, string(sums))
	assert.Equal(t, 4, strings.Count(string(sums), "h1:"))
	shell(t, r.files, nil, "sha256sum", "--check", "--quiet", "SHA256SUMS")

	r.version = "v0.2.0"
	require.ErrorContains(t, r.run(t.Context()), "nothing below [Unreleased]")
}

func TestWhatCannotBeReleased(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		version string
		change  func(t *testing.T, folder string)
		err     string
	}{
		"no version":         {version: "0.1.0", err: "not of the form v1.2.3"},
		"another path":       {version: "v2.0.0", err: "other module paths"},
		"an earlier version": {version: "v0.1.0", change: func(t *testing.T, folder string) { shell(t, folder, nil, "git", "tag", "v0.1.0") }, err: "not later than v0.1.0"},
		"a dirty tree":       {version: "v0.1.0", change: func(t *testing.T, folder string) { write(t, filepath.Join(folder, "new"), "") }, err: "not clean"},
		"a replace directive hides a module without a version": {version: "v0.1.0", change: func(t *testing.T, folder string) {
			for _, name := range []string{"verify/go.mod", "lock/a/go.mod"} {
				text := small["lock/a/go.mod"]
				if name == "verify/go.mod" {
					text = strings.ReplaceAll(small["go.mod"], "example/small", "example/small/verify")
				} else {
					text += "\nrequire github.com/example/small/verify v0.0.0\n\nreplace github.com/example/small/verify => ../../verify\n"
				}
				write(t, filepath.Join(folder, name), text)
			}
			save(t, folder)
		}, err: "lock/a/go.mod requires github.com/example/small/verify, which gets no tag"},
		"go install would refuse the core": {version: "v0.1.0", change: func(t *testing.T, folder string) {
			write(t, filepath.Join(folder, "go.mod"), small["go.mod"]+"\nreplace example.com/other => ../other\n")
			save(t, folder)
		}, err: "replace directive"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := newSmall(t, c.version)
			if c.change != nil {
				c.change(t, r.repo)
			}
			require.ErrorContains(t, r.run(t.Context()), c.err)
		})
	}
}

func TestAPatchReleaseIsCompatible(t *testing.T) {
	t.Parallel()
	r, output := newSmall(t, "v0.1.0")
	r.do = true
	require.NoError(t, r.run(t.Context()))
	write(t, filepath.Join(r.repo, "small.go"), small["small.go"]+"\n// Other is another name.\nconst Other = 1\n")
	write(t, filepath.Join(r.repo, "CHANGELOG.md"), small["CHANGELOG.md"])
	save(t, r.repo)
	r.version, r.do = "v0.1.1", false
	require.NoError(t, r.run(t.Context()))
	assert.Contains(t, output.String(), "interfaces: compatible with v0.1.0\n")

	write(t, filepath.Join(r.repo, "small.go"), strings.ReplaceAll(small["small.go"], "Name() string {", "Name(...int) string {"))
	save(t, r.repo)
	require.ErrorContains(t, r.run(t.Context()), "v0.1.1 must be compatible with v0.1.0")
	r.version = "v0.2.0"
	require.NoError(t, r.run(t.Context()))
	assert.Regexp(t, `incompatible with v0\.1\.0\ngithub\.com/example/small:\n.*Name: changed from func\(\) string to func\(\.\.\.int\) string`, output.String())
}
