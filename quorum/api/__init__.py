"""Request handlers of the controller listener, one module each: `async handle(ctx, request, services) -> response`."""
