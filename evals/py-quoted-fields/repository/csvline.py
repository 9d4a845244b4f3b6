def split_line(line):
    """Splits one line of a CSV file into its fields."""
    return [field.strip('"') for field in line.split(",")]
