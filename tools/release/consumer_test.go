package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/semver"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

const tested = "v0.999.0" // later than the last release

// consumer is a machine that has nothing of the repository but a way to its releases.
type consumer struct {
	env []string
	sum string // what the release says about its checksums
	r   *release
}

// newConsumer makes a release of HEAD in a clone.
func newConsumer(t *testing.T) *consumer {
	t.Helper()
	origin, files := filepath.Join(t.TempDir(), "origin"), t.TempDir()
	shell(t, "", nil, "git", "clone", "--quiet", "../..", origin)
	identify(t, origin)
	r := &release{repo: origin, version: tested, files: files, do: true, date: time.Now(), out: t.Output()}
	require.NoError(t, r.run(t.Context()))
	sum, err := os.ReadFile(filepath.Join(files, "leasewheel-"+tested+".go.sum"))
	require.NoError(t, err)

	// Other modules come from the cache of this machine, if they are there, into a new cache. Packages
	// that are built without their paths are found in the build cache. With the flags of make, the tests of
	// other modules have built most of them.
	known := strings.TrimSpace(shell(t, "", nil, "go", "env", "GOMODCACHE"))
	proxies := strings.TrimSpace(shell(t, "", nil, "go", "env", "GOPROXY"))
	flags := strings.TrimSpace(shell(t, "", nil, "go", "env", "GOFLAGS"))
	env := append(resolving(r.modules[0].path, origin), "GOMODCACHE="+t.TempDir(), "GOFLAGS=-mod=mod -trimpath -modcacherw "+flags,
		"GOPROXY=file://"+filepath.ToSlash(known)+"/cache/download,"+proxies, "GOSUMDB=off", "GOTOOLCHAIN=local")
	return &consumer{env, string(sum), r}
}

// shell runs a command in a folder and returns its output.
func shell(t *testing.T, folder string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		exit := new(exec.ExitError)
		errors.As(err, &exit)
		require.NoError(t, err, "%s\n%s%s", cmd, out, exit.Stderr)
	}
	return string(out)
}

// TestConsumer does what users do first: go get of each public module in an empty module, a program that
// imports it, which is the quickstart for the core, and go install of the command.
func TestConsumer(t *testing.T) {
	c := newConsumer(t)
	core := c.r.modules[0]
	for _, m := range c.r.public() {
		t.Run(m.rel, func(t *testing.T) {
			t.Parallel()
			program := "package main\n\nimport _ \"" + m.path + "\"\n\nfunc main() {}\n"
			if m.rel == "." {
				text, err := os.ReadFile("../../examples/quickstart/main.go")
				require.NoError(t, err)
				program = strings.ReplaceAll(string(text), "localhost:6379", testredis.Start(t).Addr())
			}
			folder := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(folder, "main.go"), []byte(program), 0o600))
			shell(t, folder, c.env, "go", "mod", "init", "example.com/consumer")
			shell(t, folder, c.env, "go", "get", m.path+"@"+tested)
			shell(t, folder, c.env, "go", "build", "-ldflags=-s -w", "-o", "program", ".")
			out, err := exec.CommandContext(t.Context(), filepath.Join(folder, "program")).CombinedOutput()
			require.NoError(t, err, "%s", out)
			if m.rel == "." {
				assert.Regexp(t, `(?m)token \d+$`, string(out))
			}

			mod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
			require.NoError(t, err)
			assert.NotContains(t, string(mod), "replace")
			all := strings.Split(strings.TrimSpace(shell(t, folder, c.env, "go", "list", "-m", "all")), "\n")
			for _, line := range all {
				if path, version, _ := strings.Cut(line, " "); m.ours(path) {
					assert.Equal(t, tested, version, path)
				}
			}
			c.checkSums(t, folder, core)
			graph := strings.Count(shell(t, folder, c.env, "go", "mod", "graph"), "\n")
			compiled := map[string]bool{}
			for _, path := range strings.Fields(shell(t, folder, c.env, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")) {
				compiled[path] = true
			}
			t.Logf("%s: compiles packages of %d modules, selects versions of %d, %d requirements", m.path, len(compiled)-1, len(all)-1, graph)
		})
	}
	t.Run("command", func(t *testing.T) {
		t.Parallel()
		bin := t.TempDir()
		env := append([]string{"GOBIN=" + bin}, c.env...)
		shell(t, bin, env, "go", "install", core.path+"/cmd/leasewheel@"+tested)
		assert.Contains(t, shell(t, bin, nil, filepath.Join(bin, "leasewheel"), "version"), "leasewheel "+tested+" ")
	})
}

// checkSums compares what the go command has computed with what the release has published.
func (c *consumer) checkSums(t *testing.T, folder string, core module) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(folder, "go.sum"))
	require.NoError(t, err)
	checked := 0
	for line := range strings.Lines(string(got)) {
		if path, _, _ := strings.Cut(line, " "); core.ours(path) {
			assert.Contains(t, c.sum, line)
			checked++
		}
	}
	assert.Positive(t, checked)
}

// TestPublicModulesRequireNothingForTests checks that what only the tests of a public module import is
// required by its other dependencies anyway, at the same version or a later one.
func TestPublicModulesRequireNothingForTests(t *testing.T) {
	all, err := findModules("../..")
	require.NoError(t, err)
	for _, m := range all {
		if !m.public {
			continue
		}
		for path, version := range m.onlyInTests(t) {
			assert.Fail(t, "only tests import it", "%s requires %s %s", m.rel, path, version)
		}
	}
}

// onlyInTests returns the requirements that users of a module have for the sake of its tests.
func (m module) onlyInTests(t *testing.T) map[string]string {
	t.Helper()
	file, err := m.read()
	require.NoError(t, err)
	imported := strings.Fields(shell(t, m.folder, nil, "go", "list", "-f", `{{join .Imports "\n"}}`, "./..."))
	unused := map[string]string{}
	for _, r := range file.Require {
		used := func(path string) bool { return path == r.Mod.Path || strings.HasPrefix(path, r.Mod.Path+"/") }
		if !r.Indirect && !slices.ContainsFunc(imported, used) {
			unused[r.Mod.Path] = r.Mod.Version
		}
	}
	for line := range strings.Lines(shell(t, m.folder, nil, "go", "mod", "graph")) {
		from, to, _ := strings.Cut(strings.TrimSpace(line), " ")
		path, version, _ := strings.Cut(to, "@")
		if from != m.path && unused[path] != "" && semver.Compare(version, unused[path]) >= 0 {
			delete(unused, path)
		}
	}
	return unused
}
