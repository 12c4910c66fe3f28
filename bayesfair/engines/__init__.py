"""Point-estimate engines, one file per paper, on one loop (`optimize`) and one file of mixture mathematics."""
