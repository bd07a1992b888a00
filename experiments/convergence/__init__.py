"""Speed or solution: does a gain of robust training remain when plain training has converged?"""
