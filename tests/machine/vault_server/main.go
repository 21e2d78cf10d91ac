// A Vault for tests: the core of Vault with KV and three auth methods, in memory, initialized and unsealed.
// It prints its address and its root token. The whole program of Vault takes five times as long to build.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	log "github.com/hashicorp/go-hclog"
	kube "github.com/hashicorp/vault-plugin-auth-kubernetes"
	jwt "github.com/hashicorp/vault-plugin-auth-jwt"
	kv "github.com/hashicorp/vault-plugin-secrets-kv"
	"github.com/hashicorp/vault/builtin/credential/approle"
	vaulthttp "github.com/hashicorp/vault/http"
	"github.com/hashicorp/vault/sdk/helper/consts"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/hashicorp/vault/sdk/physical/inmem"
	"github.com/hashicorp/vault/vault"
)

type registry struct{}

func known(name string) (interface{}, bool) {
	factories := map[string]interface{}{"kv": kv.Factory, "approle": approle.Factory, "jwt": jwt.Factory, "kubernetes": kube.Factory}
	found, ok := factories[name]
	return found, ok
}

func (registry) Contains(name string, _ consts.PluginType) bool { _, ok := known(name); return ok }
func (registry) Get(name string, _ consts.PluginType) (func() (interface{}, error), bool) {
	found, ok := known(name)
	return func() (interface{}, error) { return found, nil }, ok
}
func (registry) Keys(consts.PluginType) []string { return []string{"kv", "approle", "jwt", "kubernetes"} }
func (registry) DeprecationStatus(name string, _ consts.PluginType) (consts.DeprecationStatus, bool) {
	_, ok := known(name)
	return consts.Supported, ok
}

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func main() {
	logger := log.New(&log.LoggerOptions{Level: log.Error})
	physical, err := inmem.NewInmem(nil, logger)
	check(err)
	core, err := vault.NewCore(&vault.CoreConfig{
		Physical:           physical,
		Logger:             logger,
		DisableMlock:       true,
		BuiltinRegistry:    registry{},
		LogicalBackends:    map[string]logical.Factory{"kv": kv.Factory},
		CredentialBackends: map[string]logical.Factory{"approle": approle.Factory, "jwt": jwt.Factory, "kubernetes": kube.Factory},
	})
	check(err)
	done, err := core.Initialize(context.Background(), &vault.InitParams{
		BarrierConfig:  &vault.SealConfig{SecretShares: 1, SecretThreshold: 1},
		RecoveryConfig: nil,
	})
	check(err)
	_, err = core.Unseal(done.SecretShares[0])
	check(err)
	for i := 0; core.Sealed() && i < 100; i++ {
		time.Sleep(50 * time.Millisecond)
	}
	listener, err := net.Listen("tcp", os.Args[1])
	check(err)
	fmt.Println("http://" + listener.Addr().String() + "#" + done.RootToken)
	handler := vaulthttp.Handler.Handler(&vault.HandlerProperties{Core: core})
	check(http.Serve(listener, handler))
}
