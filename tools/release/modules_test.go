package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each version of a library is compiled by itself, and so is all that imports it.
func TestPrivateModulesRequireTheSameVersions(t *testing.T) {
	modules, err := findModules("../..")
	require.NoError(t, err)
	folders := map[string]map[string]string{} // of each required module, the folder that requires a version
	for _, m := range modules {
		switch m.rel {
		case "tools", "adapter/k8s/check": // the one shares nothing with tests, the other with adapter/k8s
			continue
		}
		if m.public {
			continue
		}
		file, err := m.read()
		require.NoError(t, err)
		for _, r := range file.Require {
			if folders[r.Mod.Path] == nil {
				folders[r.Mod.Path] = map[string]string{}
			}
			folders[r.Mod.Path][r.Mod.Version] = m.rel
		}
	}
	assert.Contains(t, folders, "github.com/redis/go-redis/v9")
	for path, versions := range folders {
		assert.Len(t, versions, 1, "go get %s@latest in all of them, then go mod tidy", path)
	}
}

// Kubernetes is more to compile than all that other private modules share.
func TestTheCheckOfK8sRequiresTheSameKubernetes(t *testing.T) {
	modules, err := findModules("../..")
	require.NoError(t, err)
	versions := map[string]map[string]string{} // of the libraries that a module requires
	for _, m := range modules {
		file, err := m.read()
		require.NoError(t, err)
		versions[m.rel] = map[string]string{}
		for _, r := range file.Require {
			if strings.HasPrefix(r.Mod.Path, "k8s.io/") {
				versions[m.rel][r.Mod.Path] = r.Mod.Version
			}
		}
	}
	require.NotEmpty(t, versions["adapter/k8s"])
	for path, version := range versions["adapter/k8s"] {
		assert.Equal(t, version, versions["adapter/k8s/check"][path], path)
	}
}
