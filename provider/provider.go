package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

const (
	endpointWords = "The address of the server. Without it, the variable `TERRACREW_URL` has it, or in a job of Terracrew " +
		"`TERRACREW_ENDPOINT`."
	tokenWords = "An API token. Without it, the variable `TERRACREW_TOKEN` has it. Without that, too, a job of Terracrew uses its " +
		"own token, which can only read."
	organizationWords = "The name or id of the organization; by default `TERRACREW_ORGANIZATION`, or that of the token."
)

type terracrew struct{}

type configuration struct {
	Endpoint     types.String `tfsdk:"endpoint"`
	Token        types.String `tfsdk:"token"`
	Organization types.String `tfsdk:"organization"`
}

func (*terracrew) Metadata(_ context.Context, _ provider.MetadataRequest, response *provider.MetadataResponse) {
	response.TypeName = "terracrew"
	response.Version = version
}

func (*terracrew) Schema(_ context.Context, _ provider.SchemaRequest, response *provider.SchemaResponse) {
	response.Schema = schema.Schema{
		MarkdownDescription: "Describes Terracrew itself: groups, modules, runners, and who may do what.",
		Attributes: map[string]schema.Attribute{
			"endpoint":     schema.StringAttribute{Optional: true, MarkdownDescription: endpointWords},
			"token":        schema.StringAttribute{Optional: true, Sensitive: true, MarkdownDescription: tokenWords},
			"organization": schema.StringAttribute{Optional: true, MarkdownDescription: organizationWords},
		},
	}
}

// Configure makes the client and asks the server whether it accepts the token, so that a wrong one is one error and not one for
// each resource.
func (*terracrew) Configure(ctx context.Context, request provider.ConfigureRequest, response *provider.ConfigureResponse) {
	var given configuration
	response.Diagnostics.Append(request.Config.Get(ctx, &given)...)
	if response.Diagnostics.HasError() {
		return
	}
	for name, each := range map[string]types.String{"endpoint": given.Endpoint, "token": given.Token, "organization": given.Organization} {
		if each.IsUnknown() {
			response.Diagnostics.AddAttributeError(path.Root(name), "The value is not known yet",
				"It depends on a resource that has yet to be created: apply that first, with -target.")
			return
		}
	}
	endpoint := first(given.Endpoint.ValueString(), os.Getenv("TERRACREW_URL"), os.Getenv("TERRACREW_ENDPOINT"))
	if endpoint == "" {
		response.Diagnostics.AddAttributeError(path.Root("endpoint"), "No server is named",
			"Set `endpoint`, or the environment variable TERRACREW_URL.")
		return
	}
	token := first(given.Token.ValueString(), os.Getenv("TERRACREW_TOKEN"), os.Getenv(tokenVariable(endpoint)))
	if token == "" {
		response.Diagnostics.AddAttributeError(path.Root("token"), "There is no token",
			"Set the environment variable TERRACREW_TOKEN, or `token`.")
		return
	}
	made, err := newClient(endpoint, token, first(given.Organization.ValueString(), os.Getenv("TERRACREW_ORGANIZATION")))
	if err != nil {
		response.Diagnostics.AddAttributeError(path.Root("endpoint"), "The address of the server is not valid", err.Error())
		return
	}
	me, err := made.call(ctx, http.MethodGet, "/me", nil)
	if refused := (*problem)(nil); errors.As(err, &refused) && refused.Status == http.StatusUnauthorized {
		response.Diagnostics.AddAttributeError(path.Root("token"), "The server does not accept the token", err.Error())
		return
	}
	if err != nil {
		response.Diagnostics.AddError("The server cannot be used", err.Error())
		return
	}
	made.isJob = me["kind"] == "engine"
	response.ResourceData = made
	response.DataSourceData = made
}

func (*terracrew) DataSources(context.Context) []func() datasource.DataSource {
	var found []func() datasource.DataSource
	for _, each := range lookups {
		found = append(found, func() datasource.DataSource { return &each })
	}
	return found
}

func (*terracrew) Resources(context.Context) []func() resource.Resource {
	var found []func() resource.Resource
	for _, each := range nouns {
		found = append(found, func() resource.Resource { return &described{noun: each.withDefaults()} })
	}
	return found
}

// tokenVariable is the name of the variable in which a job has its token for a server, as Terraform encodes hosts.
func tokenVariable(endpoint string) string {
	address, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	return "TF_TOKEN_" + strings.NewReplacer(".", "_", "-", "__").Replace(address.Hostname())
}

func first(texts ...string) string {
	for _, each := range texts {
		if each != "" {
			return each
		}
	}
	return ""
}
