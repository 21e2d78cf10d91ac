// The provider `terracrew`: describes Terracrew itself with OpenTofu or Terraform. docs/provider.md says how it is used.
package main

import (
	"context"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
)

// version is set when a release is built.
var version = "0.0.0"

func main() {
	options := providerserver.ServeOpts{Address: "registry.terraform.io/terracrew/terracrew"}
	made := func() provider.Provider { return &terracrew{} }
	if err := providerserver.Serve(context.Background(), made, options); err != nil {
		log.Fatal(err)
	}
}
