"""The means by which every figure is drawn: style, sheets, panels, legends, labels and ticks."""
