"""What is said of grades."""
