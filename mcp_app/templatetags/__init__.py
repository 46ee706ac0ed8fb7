"""What the app's templates use."""
