package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// jvm runs the samples of Netty.
type jvm struct {
	folder  string // of pom.xml
	Java    string
	Netty   string
	Options []string
}

// jvmOptions give the heap so much room that collections hardly show in Netty's
// figures, and keep the number of the JVM's own threads, whose processor time is
// added up.
var jvmOptions = []string{
	"-Xms3g", "-Xmx3g", "-XX:+UseParallelGC",
	"-XX:-UseDynamicNumberOfCompilerThreads", "-XX:-UseDynamicNumberOfGCThreads",
}

// newJVM builds the program beside this one with Maven.
func newJVM(ctx context.Context) (*jvm, error) {
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, err
		}
	}
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return nil, fmt.Errorf("where the sources are is not known")
	}
	j := &jvm{folder: filepath.Join(filepath.Dir(file), "netty"), Options: jvmOptions}
	build := exec.CommandContext(ctx, "mvn", "-q", "-B", "package")
	build.Dir = j.folder
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mvn package in %s: %w\n%s", j.folder, err, out)
	}
	found, err := j.run(ctx, nil, "versions")
	if err != nil {
		return nil, err
	}
	return j, json.Unmarshal(found, j)
}

// args is the command line of a sample.
func (j *jvm) args(s spec) []string {
	return j.command(
		s.Work, fmt.Sprint(s.Pending), fmt.Sprint(s.Tick.Microseconds()),
		fmt.Sprint(s.Buckets), fmt.Sprint(s.For.Microseconds()))
}

func (j *jvm) command(args ...string) []string {
	target := filepath.Join(j.folder, "target")
	classes := filepath.Join(target, "classes") + string(os.PathListSeparator) + filepath.Join(target, "lib", "*")
	command := append([]string{"java"}, j.Options...)
	return append(append(command, "-cp", classes, "Timers"), args...)
}

// run starts the program and returns the last line that it prints.
func (j *jvm) run(ctx context.Context, under []string, args ...string) ([]byte, error) {
	return output(ctx, append(under, j.command(args...)...))
}

// output runs a command and returns the last line that it prints.
func output(ctx context.Context, command []string) ([]byte, error) {
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return []byte(lines[len(lines)-1]), nil
}
