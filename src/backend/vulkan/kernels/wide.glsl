// 64-bit unsigned integers as two words, for devices that have none.

struct Wide {
  uint low;
  uint high;
};

Wide wide_add(Wide a, Wide b) {
  Wide sum;
  sum.low = a.low + b.low;
  sum.high = a.high + b.high + (sum.low < a.low ? 1U : 0U);
  return sum;
}

// a - b for a >= b.
Wide wide_subtract(Wide a, Wide b) {
  return Wide(a.low - b.low, a.high - b.high - (a.low < b.low ? 1U : 0U));
}

bool wide_less(Wide a, Wide b) {
  return a.high < b.high || (a.high == b.high && a.low < b.low);
}

Wide wide_product(uint a, uint b) {
  return Wide(a * b, multiply_high(a, b));
}

// floor(a * b / 2^64).
Wide wide_multiply_high(Wide a, Wide b) {
  Wide carry = Wide(multiply_high(a.low, b.low), 0U);
  Wide middle = wide_add(wide_product(a.low, b.high), carry);
  Wide other = wide_add(wide_product(a.high, b.low), Wide(middle.low, 0U));
  Wide high = wide_product(a.high, b.high);
  return wide_add(high, wide_add(Wide(middle.high, 0U), Wide(other.high, 0U)));
}
