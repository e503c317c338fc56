// The clients in other languages, and this project's store on ZooKeeper.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/zkstore"
)

func peerCandidates() []*candidate {
	same := func(key string) string { return key }
	const noCancel = "a wait cannot be cancelled"
	cannot := map[string]string{"cancel": noCancel, "cancel-release": noCancel}
	return []*candidate{
		{
			name: "Redisson", store: redisServer, renews: true, renewal: "EVALSHA", command: javaPeer("redisson"), lockKey: same,
			note: "RLock with its watchdog, 2 threads and 2 of Netty; asked each 100 ms, because its answer needs IO",
		},
		{
			name: "redis-py", store: redisServer, command: pythonPeer, lockKey: same, without: cannot,
			note: "not renewed, no documented watchdog; owned() asked each 100 ms",
		},
		{
			name: "node-redlock", store: redisServer, renews: true, command: nodePeer, lockKey: same, without: cannot,
			note: "using(), which renews; the program tries again, because the library counts the lease from its first try",
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

// source returns the path of a file beside this one.
func source(parts ...string) (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", errors.New("unknown path of the sources")
	}
	return filepath.Join(append([]string{filepath.Dir(file)}, parts...)...), nil
}

// prepared is a folder in the cache of the user with what a peer needs.
type prepared struct {
	once sync.Once
	dir  string
	err  error
}

var preparing = map[string]*prepared{"java": {}, "node": {}, "python": {}, "etcd": {}}

// prepare returns the folder, after install has filled it once for the same list of versions.
func prepare(name, list string, install func(dir, list string) error) (string, error) {
	p := preparing[name]
	p.once.Do(func() {
		base, err := os.UserCacheDir()
		if err != nil {
			p.err = err
			return
		}
		p.dir = filepath.Join(base, "leasewheel", "compare", name)
		p.err = func() error {
			if list, err = source("peers", name, list); err != nil {
				return err
			}
			wanted, err := os.ReadFile(list)
			if err != nil {
				return err
			}
			mark := filepath.Join(p.dir, "installed")
			if has, err := os.ReadFile(mark); err == nil && string(has) == string(wanted) {
				return nil
			}
			if err := os.MkdirAll(p.dir, 0o755); err != nil {
				return err
			}
			if err := install(p.dir, list); err != nil {
				return err
			}
			return os.WriteFile(mark, wanted, 0o600)
		}()
	})
	return p.dir, p.err
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

func pythonPeer() (*exec.Cmd, error) {
	dir, err := prepare("python", "requirements.txt", func(dir, list string) error {
		if err := runIn(dir, "python3", "-m", "venv", dir); err != nil {
			return err
		}
		return runIn(dir, filepath.Join(dir, "bin", "python"), "-m", "pip", "install", "--quiet", "--requirement", list)
	})
	if err != nil {
		return nil, err
	}
	program, err := source("peers", "python", "peer.py")
	return exec.Command(filepath.Join(dir, "bin", "python"), program), err
}

func nodePeer() (*exec.Cmd, error) {
	dir, err := prepare("node", "package-lock.json", func(dir, list string) error {
		for _, file := range []string{"package.json", "package-lock.json"} {
			text, err := os.ReadFile(filepath.Join(filepath.Dir(list), file))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
				return err
			}
		}
		return runIn(dir, "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
	})
	if err != nil {
		return nil, err
	}
	program, err := source("peers", "node", "peer.mjs")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("node", program)
	cmd.Env = append(os.Environ(), "PEER_MODULES="+filepath.Join(dir, "node_modules"))
	return cmd, nil
}

var compiled struct {
	once sync.Once
	err  error
}

// javaPeer returns the command of a library that runs in a JVM.
func javaPeer(library string) func() (*exec.Cmd, error) {
	return func() (*exec.Cmd, error) {
		dir, err := prepare("java", "pom.xml", func(dir, list string) error {
			return runIn(dir, "mvn", "-q", "-B", "-f", list, "dependency:copy-dependencies", "-DoutputDirectory="+filepath.Join(dir, "jars"))
		})
		if err != nil {
			return nil, err
		}
		jars, classes := filepath.Join(dir, "jars", "*"), filepath.Join(dir, "classes")
		compiled.once.Do(func() {
			program, err := source("peers", "java", "Peer.java")
			if compiled.err = err; err == nil {
				compiled.err = runIn(dir, "javac", "-cp", jars, "-d", classes, program)
			}
		})
		if compiled.err != nil {
			return nil, compiled.err
		}
		return exec.Command("java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classes+string(os.PathListSeparator)+jars, "Peer", library), nil
	}
}
