// A Galera cluster of MariaDB servers.

package testsql

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testproxy"
)

// LaunchGalera starts a cluster of n MariaDB servers. They notice after 5 s that one of them does not answer.
func LaunchGalera(n int) (nodes []*MariaDB, err error) {
	defer func() {
		if err != nil {
			CloseAll(nodes)
			nodes = nil
		}
	}()
	ports, err := testproxy.FreePorts(3 * n) // for the group, for what a node has missed, and for all data
	if err != nil {
		return nil, err
	}
	var group []string
	for i := range n {
		group = append(group, fmt.Sprint("127.0.0.1:", ports[3*i]))
	}
	for i := range n {
		m := new(MariaDB)
		if m.dir, err = folder(); err != nil {
			return nodes, err
		}
		nodes = append(nodes, m)
		if err = m.installMariaDB(); err != nil {
			return nodes, err
		}
		provider := ""
		for _, path := range []string{filepath.Join(filepath.Dir(m.path), "root/usr/lib/galera/libgalera_smm.so"), "/usr/lib/galera/libgalera_smm.so"} {
			if _, err := os.Stat(path); err == nil {
				provider = path
				break
			}
		}
		if provider == "" {
			return nodes, &testprocess.MissingError{Server: "Galera", Program: "libgalera_smm.so"}
		}
		m.args = append(m.arguments(),
			"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--wsrep-on=ON", "--wsrep-provider="+provider,
			"--wsrep-cluster-name=test", "--wsrep-cluster-address=gcomm://"+strings.Join(group, ","), "--wsrep-node-name="+fmt.Sprint("n", i),
			"--loose-plugin-wsrep-provider=OFF", // with which the options below could not be changed
			"--wsrep-node-address="+group[i], "--wsrep-sst-method=rsync", fmt.Sprint("--wsrep-sst-receive-address=127.0.0.1:", ports[3*i+2]),
			"--wsrep-provider-options=gmcast.listen_addr=tcp://"+group[i]+fmt.Sprint(";ist.recv_addr=127.0.0.1:", ports[3*i+1])+
				";gcache.size=32M",
		)
		args := m.args
		if i == 0 {
			m.args = slices.Concat(args, []string{"--wsrep-new-cluster"})
		}
		if err = m.Start(); err != nil {
			return nodes, err
		}
		m.args = args
	}
	return nodes, nil
}

// CloseAll ends servers and removes their folders.
func CloseAll(nodes []*MariaDB) {
	for _, m := range nodes {
		m.Close()
	}
}
