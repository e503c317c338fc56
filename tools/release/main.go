// Command release makes a release of all public modules on one commit. By default it tries the release
// in a clone, prints the result and changes nothing else:
//
//	go run . -version v0.1.0
//	go run . -version v0.1.0 -do # also brings the commit and the tags into this repository
//
// It writes the version into all go.mod files and a heading into the changelog, tidies, compares the
// interfaces with those of the last release, commits, and tags each public module. Beside the tags it
// writes the bill of materials of each public module, its checksums as go.sum has them, and SHA256SUMS.
// It never pushes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/semver"
)

func main() {
	log.SetFlags(0)
	r := release{out: os.Stdout, date: time.Now()}
	flag.StringVar(&r.version, "version", "", "the `version`, such as v0.1.0")
	flag.StringVar(&r.repo, "repo", "../..", "the `folder` of the repository")
	flag.StringVar(&r.files, "files", "../../dist", "the `folder` for bills of materials and checksums")
	flag.BoolVar(&r.do, "do", false, "bring the commit and the tags into the repository")
	flag.Parse()
	if err := r.run(context.Background()); err != nil {
		log.Fatal("release: ", err)
	}
}

// release is one release, or the trial of one.
type release struct {
	repo    string // a folder in the repository
	version string
	files   string // the folder of what is published beside the tags
	do      bool
	date    time.Time
	out     io.Writer

	clone   string   // the work tree in which the release is made
	last    string   // the version of the last release; empty if there is none
	modules []module // of the clone
}

func (r *release) run(ctx context.Context) error {
	if err := r.checkRepo(ctx); err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	r.clone = filepath.Join(temp, "clone")
	for _, step := range []func(context.Context) error{r.makeClone, r.setVersions, r.compare, r.writeHeading, r.commit, r.writeFiles} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	tags := strings.Join(r.tags(), " ")
	fmt.Fprintf(r.out, "tags: %s\n", tags)
	if !r.do {
		fmt.Fprintln(r.out, "nothing was changed but the files; make release VERSION="+r.version+" DO=1 makes the commit and the tags")
		return nil
	}
	if err := r.bring(ctx); err != nil {
		return err
	}
	fmt.Fprintf(r.out, "to publish: git push --atomic origin HEAD %s\n", tags)
	return nil
}

// checkRepo refuses a version that cannot be released from the work tree as it is.
func (r *release) checkRepo(ctx context.Context) error {
	if semver.Canonical(r.version) != r.version || r.version == "" {
		return fmt.Errorf("-version %q is not of the form v1.2.3", r.version)
	}
	if semver.Compare(semver.Major(r.version), "v1") > 0 {
		return errors.New("v2 and later need other module paths")
	}
	dirty, err := r.git(ctx, r.repo, "status", "--porcelain")
	if err != nil {
		return err
	}
	if dirty != "" {
		return fmt.Errorf("the work tree is not clean:\n%s", dirty)
	}
	tags, err := r.git(ctx, r.repo, "tag", "--list", "v*")
	if err != nil {
		return err
	}
	versions := strings.Fields(tags)
	semver.Sort(versions)
	if len(versions) > 0 {
		r.last = versions[len(versions)-1]
	}
	if semver.Compare(r.version, r.last) <= 0 {
		return fmt.Errorf("%s is not later than %s, the last release", r.version, r.last)
	}
	return nil
}

// makeClone clones the repository with the identity and the keys of its user.
func (r *release) makeClone(ctx context.Context) error {
	root, err := r.git(ctx, r.repo, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	if _, err := r.git(ctx, "", "clone", "--quiet", root, r.clone); err != nil {
		return err
	}
	for _, key := range []string{"user.name", "user.email", "user.signingkey", "gpg.format", "commit.gpgsign", "tag.gpgsign"} {
		value, err := r.git(ctx, r.repo, "config", "--default", "", "--get", key)
		if err != nil {
			return err
		}
		if value == "" {
			continue
		}
		if _, err := r.git(ctx, r.clone, "config", key, value); err != nil {
			return err
		}
	}
	r.modules, err = findModules(r.clone)
	return err
}

// setVersions writes the version into the modules that require others of the repository.
func (r *release) setVersions(ctx context.Context) error {
	var changed []module
	for _, m := range r.modules {
		requires, err := m.setVersions(r.version)
		if err != nil {
			return err
		}
		if requires {
			changed = append(changed, m)
		}
	}
	for _, m := range changed {
		if _, err := r.command(ctx, m.folder, nil, "go", "mod", "tidy"); err != nil {
			return err
		}
	}
	diff, err := r.git(ctx, r.clone, "diff", "--stat")
	fmt.Fprintln(r.out, diff)
	return err
}

// compare prints what users of the last release must change. A patch release may have none of it, and
// neither may a minor one after v1.
func (r *release) compare(ctx context.Context) error {
	if r.last == "" {
		fmt.Fprintln(r.out, "interfaces: there is no release to compare with")
		return nil
	}
	before := r.clone + "-" + r.last
	if _, err := r.git(ctx, r.clone, "worktree", "add", "--quiet", "--detach", before, r.last); err != nil {
		return err
	}
	var changes []string
	for _, m := range r.public() {
		old := filepath.Join(before, m.rel)
		if _, err := os.Stat(filepath.Join(old, "go.mod")); err != nil {
			continue // a new module
		}
		export := r.clone + ".export"
		if _, err := r.tool(ctx, old, "apidiff", "-m", "-w", export, m.path); err != nil {
			return err
		}
		found, err := r.tool(ctx, m.folder, "apidiff", "-m", "-incompatible", export, m.path)
		if err != nil {
			return err
		}
		if found != "" {
			changes = append(changes, m.path+":\n"+found)
		}
	}
	if _, err := r.git(ctx, r.clone, "worktree", "remove", "--force", before); err != nil {
		return err
	}
	text := strings.Join(changes, "\n")
	if text == "" {
		fmt.Fprintf(r.out, "interfaces: compatible with %s\n", r.last)
		return nil
	}
	fmt.Fprintf(r.out, "interfaces: incompatible with %s\n%s\n", r.last, text)
	if semver.MajorMinor(r.version) == semver.MajorMinor(r.last) || semver.Compare(r.last, "v1.0.0") >= 0 {
		return fmt.Errorf("%s must be compatible with %s", r.version, r.last)
	}
	return nil
}

const unreleased = "## [Unreleased]\n"

// writeHeading gives the changes since the last release their version.
func (r *release) writeHeading(context.Context) error {
	page := filepath.Join(r.clone, "CHANGELOG.md")
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, changes, found := strings.Cut(string(text), unreleased)
	next, _, _ := strings.Cut(changes, "\n## ")
	if !found || strings.TrimSpace(next) == "" {
		return errors.New("CHANGELOG.md has nothing below [Unreleased]")
	}
	heading := fmt.Sprintf("## [%s] - %s", strings.TrimPrefix(r.version, "v"), r.date.Format(time.DateOnly))
	fmt.Fprintln(r.out, "CHANGELOG.md:", heading)
	return os.WriteFile(page, []byte(before+unreleased+"\n"+heading+"\n"+changes), 0o644)
}

func (r *release) commit(ctx context.Context) error {
	if _, err := r.git(ctx, r.clone, "commit", "--quiet", "--all", "-m", "Release "+r.version); err != nil {
		return err
	}
	for _, tag := range r.tags() {
		if _, err := r.git(ctx, r.clone, "tag", "--annotate", "-m", "leasewheel "+r.version, tag); err != nil {
			return err
		}
	}
	return nil
}

// bring brings the commit and the tags from the clone.
func (r *release) bring(ctx context.Context) error {
	fetch := []string{"fetch", "--quiet", "--no-tags", r.clone, "HEAD"}
	for _, tag := range r.tags() {
		fetch = append(fetch, "refs/tags/"+tag+":refs/tags/"+tag)
	}
	if _, err := r.git(ctx, r.repo, fetch...); err != nil {
		return err
	}
	_, err := r.git(ctx, r.repo, "merge", "--quiet", "--ff-only", "FETCH_HEAD")
	return err
}

func (r *release) public() []module {
	return slices.DeleteFunc(slices.Clone(r.modules), func(m module) bool { return !m.public })
}

// tags returns the names of the tags, that of the core module first.
func (r *release) tags() []string {
	var tags []string
	for _, m := range r.public() {
		tags = append(tags, m.tag(r.version))
	}
	return tags
}

func (r *release) git(ctx context.Context, folder string, args ...string) (string, error) {
	return r.command(ctx, folder, nil, "git", args...)
}

// command runs a command in a folder, with more variables in its environment, and returns its output
// without the last line feed. An error has what the command printed.
func (r *release) command(ctx context.Context, folder string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Env = append(cmd.Env, env...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", cmd, err, &stdout, &stderr)
	}
	return strings.TrimSuffix(stdout.String(), "\n"), nil
}

// building is held while a tool is built: two builds of a tool at once write the same file, which cannot run meanwhile.
var building sync.Mutex

// tool runs one of the tools of this module in a folder.
func (r *release) tool(ctx context.Context, folder, name string, args ...string) (string, error) {
	building.Lock()
	program, err := r.command(ctx, "", nil, "go", "tool", "-n", name)
	building.Unlock()
	if err != nil {
		return "", err
	}
	return r.command(ctx, folder, nil, program, args...)
}
