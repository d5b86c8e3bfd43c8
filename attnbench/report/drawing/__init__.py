"""What every figure is drawn with: style, sheets, panels, legends, labels and ticks."""
