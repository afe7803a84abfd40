//! A small mutator: from seeds and words to inputs that are nearly right. The same inputs in every run.

/// Longer inputs find nothing that shorter ones do not.
const LONGEST: usize = 4096;

pub(crate) struct Mutator<'a> {
    seeds: &'a [Vec<u8>],
    words: &'a [&'a str],
    dice: Dice,
}

impl<'a> Mutator<'a> {
    pub(crate) fn new(seeds: &'a [Vec<u8>], words: &'a [&'a str]) -> Self {
        Self { seeds, words, dice: Dice(0x9E37_79B9_7F4A_7C15) }
    }

    /// A seed after one to eight changes.
    pub(crate) fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.seed().to_vec();
        for _ in 0..=self.dice.below(8) {
            self.change(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    fn seed(&mut self) -> &'a [u8] {
        &self.seeds[self.dice.below(self.seeds.len())]
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.dice.below(input.len() + 1);
        let end = (at + self.dice.below(16)).min(input.len());
        match self.dice.below(6) {
            0 => drop(input.drain(at..end)),
            1 => {
                let copy = input[at..end].to_vec();
                let to = self.dice.below(input.len() + 1);
                drop(input.splice(to..to, copy));
            }
            2 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << self.dice.below(8);
                }
            }
            3 => input.insert(at, self.dice.below(256) as u8),
            4 => {
                let word = self.words[self.dice.below(self.words.len())].bytes();
                drop(input.splice(at..at, word));
            }
            // The end of another seed.
            _ => {
                let other = self.seed();
                let from = self.dice.below(other.len() + 1);
                input.truncate(at);
                input.extend(&other[from..]);
            }
        }
    }
}

/// Numbers that look random and are not (xorshift64*).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        // On every system that is built for, a usize has at least 32 bits.
        number as usize % limit
    }
}
