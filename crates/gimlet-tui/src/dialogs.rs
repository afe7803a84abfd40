//! Questions and pickers that take the place of the input, all made from one kit of lists, confirmations and forms.
