// The samples of Netty, which runs in a JVM.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// jvm takes the samples of Netty.
type jvm struct {
	folder  string // the folder of pom.xml, seen from where make runs the program
	Java    string
	Netty   string
	Options []string
}

// jvmOptions give the heap so much room that garbage collections are rare. They also
// fix the number of the JVM's own threads, because the program adds up the processor
// times of all threads.
var jvmOptions = []string{
	"-Xms3g", "-Xmx3g", "-XX:+UseParallelGC",
	"-XX:-UseDynamicNumberOfCompilerThreads", "-XX:-UseDynamicNumberOfGCThreads",
}

// newJVM builds the Java program with Maven.
func newJVM(ctx context.Context) (*jvm, error) {
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, err
		}
	}
	j := &jvm{folder: filepath.Join("timers", "netty"), Options: jvmOptions}
	build := exec.CommandContext(ctx, "mvn", "-q", "-B", "package")
	build.Dir = j.folder
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mvn package in %s: %w\n%s", j.folder, err, out)
	}
	versions, err := lastLine(ctx, j.command("versions"))
	if err != nil {
		return nil, err
	}
	return j, json.Unmarshal(versions, j)
}

// args returns the command line of a sample.
func (j *jvm) args(s spec) []string {
	return j.command(
		s.Work, fmt.Sprint(s.Pending), fmt.Sprint(s.Tick.Microseconds()),
		fmt.Sprint(s.Buckets), fmt.Sprint(s.For.Microseconds()), fmt.Sprint(s.Over.Microseconds()))
}

func (j *jvm) command(args ...string) []string {
	target := filepath.Join(j.folder, "target")
	classes := filepath.Join(target, "classes") + string(os.PathListSeparator) + filepath.Join(target, "lib", "*")
	command := append([]string{"java"}, j.Options...)
	return append(append(command, "-cp", classes, "Timers"), args...)
}

// sample takes a sample in a JVM.
func (j *jvm) sample(ctx context.Context, one job) (values, error) {
	line, err := lastLine(ctx, j.args(one.Spec.forPeer(netty)))
	if err != nil {
		return nil, err
	}
	v := values{}
	if err := json.Unmarshal(line, &v); err != nil {
		return nil, fmt.Errorf("%v: %w in %q", one, err, line)
	}
	return v, nil
}

// lastLine runs a command and returns the last line that it prints.
func lastLine(ctx context.Context, command []string) ([]byte, error) {
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return []byte(lines[len(lines)-1]), nil
}
