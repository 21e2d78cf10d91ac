// The provider `terracrew.test/terracrew/testing`: what tests create, change and lose instead of resources of a cloud.
// README.md says how a test uses it.
package main

import (
	"context"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
)

func main() {
	options := providerserver.ServeOpts{Address: "terracrew.test/terracrew/testing"}
	if err := providerserver.Serve(context.Background(), func() provider.Provider { return &testing{} }, options); err != nil {
		log.Fatal(err)
	}
}

type testing struct{}

func (*testing) Metadata(_ context.Context, _ provider.MetadataRequest, response *provider.MetadataResponse) {
	response.TypeName = "testing"
	response.Version = "1.0.0"
}

func (*testing) Schema(context.Context, provider.SchemaRequest, *provider.SchemaResponse) {}

func (*testing) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {}

func (*testing) DataSources(context.Context) []func() datasource.DataSource { return nil }

func (*testing) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return &file{} }}
}
