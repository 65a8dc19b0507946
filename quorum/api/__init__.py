"""What a controller's listener serves, a module each: `async handle(ctx, request, services) -> response`."""
