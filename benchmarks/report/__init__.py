"""What evaluations say: tables in the paper's form, whether the cascade pays, plots and a page."""
