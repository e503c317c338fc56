// The clients that run in a JVM, and this project's store on ZooKeeper.

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/zkstore"
)

func javaCandidates() []*candidate {
	return []*candidate{
		{
			name: "Redisson", store: redisServer, renews: true, renewal: "EVALSHA", command: javaPeer("redisson"), lockKey: "%s",
			note: "RLock with its watchdog, 2 threads and 2 of Netty; asked each 100 ms, because its answer needs IO",
		},
		{
			name: "Curator", store: zooKeeperServer, renews: true, command: javaPeer("curator"),
			note: "InterProcessMutex, sessions of 2 s; SUSPENDED counts as told, as documented",
		},
	}
}

// oursOnZooKeeper has the shortest session that allows the lease.
func oursOnZooKeeper(ctx context.Context, addrs []string) (driver.Store, error) {
	return zkstore.New(ctx, addrs, &zkstore.Options{SessionTimeout: 2 * lease})
}

// cached returns the path of a program or folder in the cache of the user.
func cached(name string) (string, error) {
	base, err := os.UserCacheDir()
	return filepath.Join(base, "leasewheel", "compare", name), err
}

// runIn runs a command in a folder. Its error has the output.
func runIn(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// javaClasses fetches the libraries and compiles Peer.java, once. It returns the class path.
var javaClasses = sync.OnceValues(func() (string, error) {
	dir, err := cached("java")
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil { // it may have other versions
		return "", err
	}
	source, jars, classes := filepath.Join("peers", "java"), filepath.Join(dir, "jars"), filepath.Join(dir, "classes")
	err = runIn(source, "mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory="+jars)
	if err != nil {
		return "", err
	}
	all := filepath.Join(jars, "*")
	return classes + string(os.PathListSeparator) + all, runIn(source, "javac", "-cp", all, "-d", classes, "Peer.java")
})

// javaPeer returns the command of a library.
func javaPeer(library string) func() (*exec.Cmd, error) {
	return func() (*exec.Cmd, error) {
		path, err := javaClasses()
		return exec.Command("java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", path, "Peer", library), err
	}
}
